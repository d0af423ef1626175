"""A real SSH server for git on loopback, in a thread; real `ssh` clients log in to it."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

from tests.support.processes.server_loop import server_loop
from windlass.git.format.remote import Remote
from windlass_dev.git_server.bare_repositories import git_environment

_SERVICES = frozenset({"git-upload-pack", "git-receive-pack"})


@dataclass
class RunningSshServer:
    """A running server: `key` may log in, `known_hosts` has its host key."""

    root: Path
    port: int
    key: bytes
    known_hosts: bytes
    user_public_key: str
    logins: list[str] = field(default_factory=list)

    def remote(self, name: str) -> Remote:
        return Remote.parse(f"ssh://git@127.0.0.1:{self.port}/{name}.git")


class _Server(asyncssh.SSHServer):
    def __init__(self, logins: list[str]) -> None:
        self._logins = logins

    def begin_auth(self, username: str) -> bool:
        self._logins.append(username)
        return True


async def _serve(process: asyncssh.SSHServerProcess[bytes], root: Path) -> None:
    """Run the requested git service on a repository below `root`."""
    arguments = shlex.split(process.command or "")
    if len(arguments) != 2 or arguments[0] not in _SERVICES:
        process.stderr.write(b"only git is served here\n")
        process.exit(1)
        return
    child = await asyncio.create_subprocess_exec(
        "git",
        arguments[0].removeprefix("git-"),
        str(root / arguments[1].lstrip("/")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=git_environment(),
    )
    try:
        await process.redirect(child.stdin, child.stdout, child.stderr)
        process.exit(await child.wait())
        await process.wait_closed()
    finally:
        # Its client may have left, or the server ends.
        if child.returncode is None:
            child.kill()
            await child.wait()


@contextlib.contextmanager
def running_ssh_server(
    root: Path, *, host: asyncssh.SSHKey | None = None
) -> Iterator[RunningSshServer]:
    """An SSH server that serves the bare repositories in `root`, with a fresh key by default."""
    host = host or asyncssh.generate_private_key("ssh-ed25519")
    user = asyncssh.generate_private_key("ssh-ed25519")
    logins: list[str] = []

    async def listen() -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            "127.0.0.1",
            0,
            server_factory=lambda: _Server(logins),
            server_host_keys=[host],
            authorized_client_keys=asyncssh.import_authorized_keys(
                user.export_public_key().decode()
            ),
            process_factory=lambda process: _serve(process, root),
            encoding=None,
        )

    kind, key = host.export_public_key().decode().split()[:2]
    with server_loop() as running:
        acceptor = running.run(listen())
        port = acceptor.get_port()
        try:
            yield RunningSshServer(
                root=root,
                port=port,
                key=user.export_private_key(),
                known_hosts=f"[127.0.0.1]:{port} {kind} {key}\n".encode(),
                user_public_key=user.export_public_key().decode().split()[1],
                logins=logins,
            )
        finally:
            running.run(_stop(acceptor))


async def _stop(acceptor: asyncssh.SSHAcceptor) -> None:
    acceptor.close()
    await acceptor.wait_closed()
