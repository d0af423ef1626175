"""Runs git as a hardened child process; nothing else in the project starts git.

`Git.run` checks the transport and the address, gives the child an environment made from scratch,
passes credentials by inherited descriptor or 0600 file, and kills the whole process group at the
deadline, on cancellation and when it prints too much. It returns the output or raises a `GitError`
with one of the closed reasons and a redacted message.

Each child holds one of the process's fair slots (`base.fair_slots`); the wait for it is not part of
any deadline. A child that loses its slot to another namespace is killed, and started again when its
turn comes if its caller says how to clean up before that.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from windlass.base import files, redaction, tasks
from windlass.base.fair_slots import FairSlots, SlotRevoked
from windlass.git import address, environment, process, ssh
from windlass.git.credentials import ANONYMOUS, Credentials
from windlass.git.errors import GitError, InsecureTransport
from windlass.git.format import failures, known_hosts
from windlass.git.format.remote import Remote
from windlass.git.settings import GitSettings

MAX_CHILDREN = 16
MAX_CHILDREN_PER_HOST = 5

_PROXY_PORT = 1080
"""The port that curl uses for a proxy whose address names none."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Completed:
    """What a child printed; `stderr` is redacted."""

    stdout: bytes
    stderr: str


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Environment, working directory and inherited descriptors of one child."""

    variables: dict[str, str]
    directory: Path
    descriptors: tuple[int, ...]


OnEnd = Callable[[str, str], None]
"""Gets the subcommand of a child that ended, and `ok` or the reason of its GitError."""


class Git:
    """Starts git children under one set of settings.

    `on_end` is called after each child. `slots` bounds how many run at the same time.
    """

    def __init__(
        self,
        settings: GitSettings | None = None,
        *,
        on_end: OnEnd = lambda *_: None,
        slots: FairSlots | None = None,
    ) -> None:
        self._on_end = on_end
        self._slots = slots or FairSlots(MAX_CHILDREN, MAX_CHILDREN_PER_HOST)
        self.settings = settings if settings is not None else GitSettings()
        self._base = environment.private_base(self.settings.run_directory)
        environment.remove_leftovers(self._base)

    def under(self, settings: GitSettings) -> Git:
        """The same runner with other limits; the directory for keys stays the same."""
        other = copy.copy(self)
        other.settings = settings
        return other

    async def run(
        self,
        args: Sequence[str],
        *,
        credentials: Credentials = ANONYMOUS,
        remote: Remote | None = None,
        cwd: Path | None = None,
        deadline_seconds: float,
        stdin: bytes = b"",
        config: Sequence[tuple[str, str]] = (),
        sink: Callable[[bytes], object] | None = None,
        before_repeat: Callable[[], object] | None = None,
    ) -> Completed:
        """Run `git args`; GitError with redacted stderr where it fails.

        A `sink` gets stdout as it arrives, in a thread. A call that loses its slot is repeated
        after `before_repeat`; without one it fails with Timeout.
        """
        program = await asyncio.to_thread(self._find_program)
        if remote is not None:
            check_transport(remote, self.settings)
            if remote.scheme == "ssh":
                ssh.check(remote, credentials)
        while True:
            try:
                async with self._slots.hold(remote.host if remote is not None else ""):
                    return await self._run_child(
                        [program, *args],
                        credentials,
                        remote,
                        cwd,
                        deadline_seconds,
                        stdin,
                        config,
                        sink,
                    )
            except SlotRevoked as error:
                _log.info("git stopped in favor of other namespaces", command=args[0])
                if before_repeat is None:
                    text = f"git {args[0]} was stopped because other namespaces waited for git"
                    raise GitError("Timeout", text) from error
                before_repeat()

    async def _run_child(
        self,
        argv: Sequence[str],
        credentials: Credentials,
        remote: Remote | None,
        cwd: Path | None,
        deadline_seconds: float,
        stdin: bytes,
        config: Sequence[tuple[str, str]],
        sink: Callable[[bytes], object] | None,
    ) -> Completed:
        command = argv[1]
        addresses = await self._addresses(remote, credentials)
        with self._counted(command), credentials.in_use(), contextlib.ExitStack() as stack:
            prepared = await tasks.run_in_thread(
                self._prepare, stack, remote, credentials, addresses, config
            )
            try:
                ended = await process.run(
                    argv,
                    environment=prepared.variables | _location(cwd),
                    cwd=cwd if cwd is not None else prepared.directory,
                    stdin=stdin,
                    descriptors=prepared.descriptors,
                    limits=self._limits(deadline_seconds),
                    sink=sink,
                )
            except TimeoutError as error:
                raise _timed_out(command, deadline_seconds, remote) from error
            except FileNotFoundError as error:
                raise GitError("Corrupt", "the directory of the git store is missing") from error
            return _completed(command, ended, remote, credentials)

    @contextlib.contextmanager
    def _counted(self, operation: str) -> Iterator[None]:
        try:
            yield
        except GitError as error:
            self._on_end(operation, error.reason)
            raise
        self._on_end(operation, "ok")

    def _find_program(self) -> str:
        path = shutil.which(self.settings.program)
        if path is None:
            raise GitError("Unavailable", f"program {self.settings.program} not found")
        return path

    async def _addresses(self, remote: Remote | None, credentials: Credentials) -> tuple[str, ...]:
        """The addresses to pin the child to; behind a proxy the proxy is checked instead."""
        if remote is None or remote.scheme == "file":
            return ()
        if credentials.proxy is not None and remote.scheme != "ssh":
            parts = urlsplit(credentials.proxy.address)
            port = parts.port or _PROXY_PORT
            await address.resolve(parts.hostname or "", port, self.settings)
            return ()
        addresses = await address.resolve(remote.host, remote.port, self.settings)
        return () if address.is_literal(remote.host) else addresses

    def _prepare(
        self,
        stack: contextlib.ExitStack,
        remote: Remote | None,
        credentials: Credentials,
        addresses: tuple[str, ...],
        config: Sequence[tuple[str, str]],
    ) -> _Prepared:
        """Make files, descriptor and variables of one call; the stack removes them."""
        directory = stack.enter_context(environment.PrivateDirectory(self._base))
        pairs = environment.base_pairs(self.settings, directory.make_empty("hooks"))
        variables = environment.fixed_variables(directory, os.devnull)
        descriptors: tuple[int, ...] = ()
        if remote is not None:
            pairs.append((f"protocol.{remote.scheme}.allow", "always"))
            variables["GIT_ALLOW_PROTOCOL"] = remote.scheme
        if remote is not None and remote.scheme in {"http", "https"}:
            descriptors = tuple(stack.enter_context(self._helper(remote, credentials)))
            if credentials.bearer:
                content = environment.bearer_config(remote, credentials)
                variables["GIT_CONFIG_GLOBAL"] = str(directory.write("config", content))
            helper = descriptors[0] if descriptors else None
            pairs += environment.http_pairs(remote, credentials, directory, addresses, helper)
        if remote is not None and remote.scheme == "ssh":
            pinned = addresses[0] if addresses else None
            command = ssh.command(self.settings, remote, credentials, directory, pinned)
            variables |= {"GIT_SSH_COMMAND": command, "GIT_SSH_VARIANT": "ssh"}
        variables |= environment.configuration_variables([*pairs, *config])
        return _Prepared(variables, directory.path, descriptors)

    @contextlib.contextmanager
    def _helper(self, remote: Remote, credentials: Credentials) -> Iterator[list[int]]:
        content = environment.helper_content(remote, credentials)
        if not content:
            yield []
            return
        descriptor = files.anonymous_file(content)
        try:
            yield [descriptor]
        finally:
            os.close(descriptor)

    def _limits(self, deadline_seconds: float) -> process.ProcessLimits:
        return process.ProcessLimits(
            deadline_seconds=deadline_seconds,
            stdout_bytes=self.settings.stdout_limit_bytes,
            stderr_bytes=self.settings.stderr_limit_bytes,
            memory_bytes=self.settings.memory_limit_bytes,
            file_bytes=self.settings.file_limit_bytes,
        )


def check_transport(remote: Remote, settings: GitSettings) -> None:
    """Refuse transports without encryption, unless they are allowed for the host."""
    is_open = remote.scheme in {"http", "git"}
    if is_open and not settings.allows_insecure(remote.host, remote.port):
        raise InsecureTransport(
            f"{remote.scheme} is not allowed for host {remote.host}; use https or ssh,"
            " or add the host to --git-insecure-hosts"
        )
    if remote.scheme == "file" and not settings.allow_file:
        raise InsecureTransport("file URLs are not allowed; use https or ssh")


def _location(cwd: Path | None) -> dict[str, str]:
    """GIT_DIR set explicitly, so that git never searches the directories above a broken store."""
    return {"GIT_DIR": str(cwd)} if cwd is not None else {}


def _timed_out(command: str, seconds: float, remote: Remote | None) -> GitError:
    text = f"git {command} timed out after {seconds:g} s"
    if remote is not None and command == "ls-remote":
        # A port that is open and silent reads like a closed one.
        return _unreachable(remote, text)
    return GitError("Timeout", text)


def _unreachable(remote: Remote, cause: str) -> GitError:
    """One error for every cause: the author of the URL must not learn which ports are open."""
    _log.debug("git server unreachable", host=remote.host, port=remote.port, cause=cause)
    message = failures.unreachable_message(remote.host.strip("[]"), remote.port)
    return GitError("Unavailable", message)


def _completed(
    command: str, ended: process.Ended, remote: Remote | None, credentials: Credentials
) -> Completed:
    stderr = redaction.process.clean(ended.stderr.decode("utf-8", "replace"), limit=64 * 1024)
    if ended.overflowed:
        raise GitError("TooLarge", f"git {command} was stopped: too much output")
    if ended.returncode == 0:
        return Completed(ended.stdout, stderr)
    reason = failures.failure_reason(stderr, ended.stdout.decode("utf-8", "replace"))
    text = failures.readable_stderr(stderr) or f"exit status {ended.returncode}"
    if remote is not None and reason == "Unavailable" and failures.is_unreachable(text):
        raise _unreachable(remote, text)
    if reason == "HostKeyMismatch" and remote is not None:
        expected = known_hosts.fingerprints(credentials.known_hosts, remote.host, remote.port)
        raise GitError(reason, failures.host_key_message(remote.host, expected, stderr))
    raise GitError(reason, f"git {command}: {text}", stdout=ended.stdout)
