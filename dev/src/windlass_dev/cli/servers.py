"""`windlass dev gateway` and `windlass dev git`: servers in the foreground."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass_dev.cli import dev

if TYPE_CHECKING:
    import asyncio

    from windlass_dev.git_server.smart_http import GitServerSettings
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
    stop = _stop_event()
    await server.start()
    typer.echo(server.url)
    typer.echo(server.control_url)
    await stop.wait()
    await server.stop()


@dev.app.command()
def git(
    root: Annotated[Path, typer.Option(help="Directory of the repositories.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.")] = 0,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Also listen on the address at which pods of this cluster reach this machine.",
        ),
    ] = None,
    create: Annotated[
        list[str] | None, typer.Option(help="Create this empty repository; repeatable.")
    ] = None,
    username: Annotated[str, typer.Option(help="User name for the password.")] = "git",
    password_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the password; if omitted, no authentication (unless --token-file)."
        ),
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with a bearer token.")] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Serve HTTPS with this certificate (PEM).")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Private key of the certificate (PEM).")] = None,
    faults: Annotated[
        Path | None,
        typer.Option(help="JSON file that names a fault to inject; read on each request."),
    ] = None,
) -> None:
    """Serve git repositories over smart HTTP, for development and fault injection."""
    import asyncio

    from windlass_dev.cluster import local_cluster
    from windlass_dev.git_server.smart_http import GitServerSettings

    settings = GitServerSettings(
        root=root.resolve(),
        host=host,
        port=port,
        username=username,
        password=_read_line(password_file),
        token=_read_line(token_file),
        certificate=certificate,
        key=key,
        control_file=faults,
        creates_on_push=True,
    )
    settings.root.mkdir(parents=True, exist_ok=True)
    also = local_cluster.get_cluster(node).host if node else host
    asyncio.run(_serve_git(settings, create or (), also if also != host else ""))


def _read_line(path: Path | None) -> str:
    """The password in a file; one on the command line would be visible to every user."""
    return path.read_text().strip("\r\n") if path is not None else ""


async def _serve_git(settings: GitServerSettings, create: Sequence[str], also: str) -> None:
    """Serve until a signal, on the address `also` as well; print the URLs of the repositories."""
    import asyncio

    from windlass_dev.git_server.smart_http import GitServer

    stop = _stop_event()
    servers = [GitServer(settings)]
    await servers[0].start()
    if also:
        servers.append(GitServer(replace(settings, host=also, port=servers[0].port)))
        await servers[1].start()
    for name in create:
        await asyncio.to_thread(servers[0].create, name)
    for server in servers:
        for name in create or ("NAME",):
            typer.echo(server.url(name))
    await stop.wait()
    for server in servers:
        await server.stop()


def _stop_event() -> asyncio.Event:
    """An event that is set by SIGINT and SIGTERM."""
    import asyncio
    import signal

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
