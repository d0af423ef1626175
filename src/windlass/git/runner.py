"""Runs git as a hardened child process; nothing else in the project starts git.

`Git.run` checks the transport and the address, gives the child an environment made from scratch,
passes credentials by inherited descriptor or 0600 file, and kills the whole process group at the
deadline, on cancellation and when it prints too much. It returns the output or raises a `GitError`
with one of the closed reasons and a redacted message.

`ChildSlots` bounds how many git children run at the same time, in all and per host. Waiting calls
are served in order. A busy host delays only its own calls: a slot of the total is taken after one
of the host. The wait is not part of any deadline.
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
from weakref import WeakValueDictionary

import structlog

from windlass.base import files, redaction, tasks
from windlass.git import address, environment, process, ssh
from windlass.git.credentials import ANONYMOUS, Credentials
from windlass.git.errors import GitError, InsecureTransport
from windlass.git.format import failures, known_hosts
from windlass.git.format.remote import Remote
from windlass.git.settings import GitSettings


class ChildSlots:
    """The slots of one process; children without a host take one of the total only."""

    def __init__(self, most: int, most_per_host: int) -> None:
        # Slots of the whole process.
        self._all = asyncio.Semaphore(most)
        self._most_per_host = most_per_host
        # Slots of each host. Weak: a semaphore goes when no call waits for it or holds it.
        self._hosts: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def acquire(self, host: str) -> contextlib.ExitStack:
        """Wait for a slot; leaving the returned block gives it back."""
        slot = contextlib.ExitStack()
        try:
            for semaphore in (*self._host_slots(host), self._all):
                await semaphore.acquire()
                slot.callback(semaphore.release)
        except BaseException:
            slot.close()
            raise
        return slot

    def _host_slots(self, host: str) -> tuple[asyncio.Semaphore, ...]:
        if not host:
            return ()
        slots = self._hosts.get(host)
        if slots is None:
            slots = self._hosts[host] = asyncio.Semaphore(self._most_per_host)
        return (slots,)


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

    `on_end` is called after each child. `slots` bounds how many run at the same time; None: no
    bound.
    """

    def __init__(
        self,
        settings: GitSettings | None = None,
        *,
        on_end: OnEnd = lambda *_: None,
        slots: ChildSlots | None = None,
    ) -> None:
        self._on_end = on_end
        self._slots = slots
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
    ) -> Completed:
        """Run `git args`; GitError with redacted stderr where it fails.

        A `sink` gets stdout as it arrives, in a thread.
        """
        program = await asyncio.to_thread(self._find_program)
        if remote is not None:
            check_transport(remote, self.settings)
            if remote.scheme == "ssh":
                ssh.check(remote, credentials)
        addresses = await self._addresses(remote, credentials)
        slot = await self._acquire_slot(remote)
        with slot, self._counted(args[0]), credentials.in_use(), contextlib.ExitStack() as stack:
            prepared = await tasks.run_in_thread(
                self._prepare, stack, remote, credentials, addresses, config
            )
            try:
                ended = await process.run(
                    [program, *args],
                    environment=prepared.variables | _location(cwd),
                    cwd=cwd if cwd is not None else prepared.directory,
                    stdin=stdin,
                    descriptors=prepared.descriptors,
                    limits=self._limits(deadline_seconds),
                    sink=sink,
                )
            except TimeoutError as error:
                text = f"git {args[0]} did not end within {deadline_seconds:g} s and was stopped"
                raise GitError("Timeout", text) from error
            except FileNotFoundError as error:
                raise GitError("Corrupt", "the store's directory is gone") from error
            return _completed(args[0], ended, remote, credentials)

    async def _acquire_slot(self, remote: Remote | None) -> contextlib.ExitStack:
        if self._slots is None:
            return contextlib.ExitStack()
        return await self._slots.acquire(remote.host if remote is not None else "")

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
            raise GitError("Unavailable", f"there is no program {self.settings.program} to start")
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
            f"{remote.scheme} is refused for host {remote.host}: use https or ssh,"
            " or list the host in --git-insecure-hosts"
        )
    if remote.scheme == "file" and not settings.allow_file:
        raise InsecureTransport("file URLs are for development only: use https or ssh")


def _location(cwd: Path | None) -> dict[str, str]:
    """GIT_DIR set explicitly, so that git never searches the directories above a broken store."""
    return {"GIT_DIR": str(cwd)} if cwd is not None else {}


def _completed(
    command: str, ended: process.Ended, remote: Remote | None, credentials: Credentials
) -> Completed:
    stderr = redaction.process.clean(ended.stderr.decode("utf-8", "replace"), limit=64 * 1024)
    if ended.overflowed:
        raise GitError("TooLarge", f"git {command} was stopped: it printed more than is allowed")
    if ended.returncode == 0:
        return Completed(ended.stdout, stderr)
    reason = failures.failure_reason(stderr, ended.stdout.decode("utf-8", "replace"))
    text = failures.readable_stderr(stderr) or f"exit status {ended.returncode}"
    if remote is not None and reason == "Unavailable" and failures.is_unreachable(text):
        # The log may contain the cause; the author of the URL must not learn which ports are open.
        _log.debug("git server unreachable", host=remote.host, port=remote.port, cause=text)
        raise GitError(reason, failures.unreachable_message(remote.host.strip("[]"), remote.port))
    if reason == "HostKeyMismatch" and remote is not None:
        expected = known_hosts.fingerprints(credentials.known_hosts, remote.host, remote.port)
        text = f"{text}; expected {', '.join(expected)}"
    raise GitError(reason, f"git {command}: {text}", stdout=ended.stdout)
