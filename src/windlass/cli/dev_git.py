"""`windlass dev git`: the desk's git server on a terminal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.dev.git_server import GitServer


def serve(
    root: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
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

    Passwords come from files, because arguments are for everybody to read.
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
    asyncio.run(_serve(GitServer(settings), create))


def _line_of(path: Path | None) -> str:
    return path.read_text().strip("\r\n") if path is not None else ""


async def _serve(server: GitServer, create: Sequence[str]) -> None:
    import typer

    await server.start()
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, done.set)
    for name in create:
        await asyncio.to_thread(server.create, name)
        typer.echo(server.url(name))
    if not create:
        typer.echo(server.url("NAME"))
    await done.wait()
    await server.stop()
