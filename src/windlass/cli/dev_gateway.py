"""`windlass dev gateway`: the mock Ignition gateway on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.cli import dev

if TYPE_CHECKING:
    from windlass.dev.gateway_server import GatewayServer


@dev.app.command()
def gateway(
    data: Annotated[Path, typer.Option(help="The data directory, with projects and config.")],
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 0,
    tls: Annotated[bool, typer.Option("--tls", help="Serve HTTPS, by an own authority.")] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The API token, name:secret; without it everybody may enter."
        ),
    ] = None,
    control_port: Annotated[
        int, typer.Option(help="Port for switching modes and looking in; 0 takes a free one.")
    ] = 0,
) -> None:
    """Pretend to be an Ignition gateway over DATA; prints its URL, then the control port's."""
    import asyncio

    from windlass.dev.gateway_server import GatewayServer, GatewaySettings

    settings = GatewaySettings(data.resolve(), port, control_port, tls, _token(token_file))
    asyncio.run(_serve(GatewayServer(settings)))


def _token(path: Path | None) -> str:
    """From a file, because arguments are for everybody to read."""
    if path is None:
        return ""
    try:
        token = path.read_text().strip()
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}", param_hint="--token-file") from error
    if not all(token.partition(":")):
        raise typer.BadParameter("the file must hold NAME:SECRET", param_hint="--token-file")
    return token


async def _serve(server: GatewayServer) -> None:
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
