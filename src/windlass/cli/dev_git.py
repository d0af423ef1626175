"""`windlass dev git`: the desk's git server on a terminal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.dev.git_server import GitServer


def serve(
    root: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    also: str | None = None,
    create: Sequence[str] = (),
    creates_on_push: bool = True,
    username: str = "git",
    password_file: Path | None = None,
    token_file: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    control_file: Path | None = None,
) -> None:
    """Serve the repositories below `root` until interrupted; print their URLs.

    Passwords come from files, because arguments are for everybody to read. `also` is a
    second address to listen on, with the same port.
    """
    from windlass.dev.git_server import GitServer, GitServerSettings

    settings = GitServerSettings(
        root=root.resolve(),
        host=host,
        port=port,
        username=username,
        password=_line_of(password_file),
        token=_line_of(token_file),
        certificate=certificate,
        key=key,
        control_file=control_file,
        creates_on_push=creates_on_push,
    )
    settings.root.mkdir(parents=True, exist_ok=True)
    asyncio.run(_serve(GitServer(settings), create, also if also != host else None))


def _line_of(path: Path | None) -> str:
    return path.read_text().strip("\r\n") if path is not None else ""


async def _serve(server: GitServer, create: Sequence[str], also: str | None) -> None:
    import typer

    await server.start()
    servers = [server]
    if also is not None:
        servers.append(await _second(server, also))
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, done.set)
    for name in create:
        await asyncio.to_thread(server.create, name)
    for one in servers:
        for name in create or ("NAME",):
            typer.echo(one.url(name))
    await done.wait()
    for one in servers:
        await one.stop()


async def _second(server: GitServer, host: str) -> GitServer:
    """The same repositories on the same port of another address."""
    from windlass.dev.git_server import GitServer

    second = GitServer(replace(server.settings, host=host, port=server.port))
    await second.start()
    return second
