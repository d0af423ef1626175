"""`windlass dev gateway` and the server behind `windlass dev git`, in the foreground."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass_dev.cli import dev

if TYPE_CHECKING:
    from windlass_dev.git_server.smart_http import GitServer
    from windlass_dev.mock_gateway.gateway_server import MockGatewayServer


@dev.app.command()
def gateway(
    data: Annotated[Path, typer.Option(help="Data directory, with projects and config.")],
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.")] = 0,
    tls: Annotated[
        bool, typer.Option("--tls", help="Serve HTTPS with a certificate of its own CA.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the API token, NAME:SECRET; if omitted, no authentication.",
        ),
    ] = None,
    control_port: Annotated[
        int, typer.Option(help="Port for switching modes and inspection; 0 picks a free one.")
    ] = 0,
) -> None:
    """Run a mock Ignition gateway over DATA; prints its URL, then the URL of its control port."""
    import asyncio

    from windlass_dev.mock_gateway.gateway_server import MockGatewayServer, MockGatewaySettings

    settings = MockGatewaySettings(data.resolve(), port, control_port, tls, _read_token(token_file))
    asyncio.run(_serve_gateway(MockGatewayServer(settings)))


def _read_token(path: Path | None) -> str:
    """Read the API token from its file; a token on the command line would be visible to all."""
    if path is None:
        return ""
    try:
        token = path.read_text().strip()
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}", param_hint="--token-file") from error
    if not all(token.partition(":")):
        raise typer.BadParameter("the file must contain NAME:SECRET", param_hint="--token-file")
    return token


async def _serve_gateway(server: MockGatewayServer) -> None:
    import asyncio
    import signal

    done = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, done.set)
    await server.start()
    typer.echo(server.url)
    typer.echo(server.control_url)
    await done.wait()
    await server.stop()


def serve_git(
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

    Passwords come from files, because every user can read command lines. `also` is a second
    address to listen on, with the same port.
    """
    import asyncio

    from windlass_dev.git_server.smart_http import GitServer, GitServerSettings

    settings = GitServerSettings(
        root=root.resolve(),
        host=host,
        port=port,
        username=username,
        password=_read_line(password_file),
        token=_read_line(token_file),
        certificate=certificate,
        key=key,
        control_file=control_file,
        creates_on_push=creates_on_push,
    )
    settings.root.mkdir(parents=True, exist_ok=True)
    asyncio.run(
        _serve_git_until_signal(GitServer(settings), create, also if also != host else None)
    )


def _read_line(path: Path | None) -> str:
    return path.read_text().strip("\r\n") if path is not None else ""


async def _serve_git_until_signal(
    server: GitServer, create: Sequence[str], also: str | None
) -> None:
    import asyncio
    import signal

    await server.start()
    servers = [server]
    if also is not None:
        servers.append(await _start_second_server(server, also))
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, done.set)
    for name in create:
        await asyncio.to_thread(server.create, name)
    for running in servers:
        for name in create or ("NAME",):
            typer.echo(running.url(name))
    await done.wait()
    for running in servers:
        await running.stop()


async def _start_second_server(server: GitServer, host: str) -> GitServer:
    """Start a server for the same repositories on the same port of another address."""
    from windlass_dev.git_server.smart_http import GitServer

    second = GitServer(replace(server.settings, host=host, port=server.port))
    await second.start()
    return second
