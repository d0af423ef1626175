"""`windlass dev demo`, `git`, `binaries`, `generate`: the commands besides the cluster's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from windlass_dev.cli import dev


@dev.app.command()
def demo(
    down: Annotated[
        bool, typer.Option("--down", help="Stop everything the demo left running.")
    ] = False,
) -> None:
    """Run three stories on one local cluster: a mirror, a gateway, an environment."""
    from windlass_dev import progress
    from windlass_dev.demo import stories

    reporter = progress.reporter_for(sys.stderr)
    if down:
        stories.remove_all(reporter)
        return
    if not stories.play_all(reporter, typer.echo):
        raise typer.Exit(1)


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
    from windlass_dev.cli import servers

    servers.serve_git(
        root,
        host=host,
        port=port,
        also=_host_address_for(node) if node else None,
        create=create or (),
        username=username,
        password_file=password_file,
        token_file=token_file,
        certificate=certificate,
        key=key,
        control_file=faults,
    )


def _host_address_for(name: str) -> str:
    from windlass_dev.cluster import local_cluster

    return local_cluster.get_cluster(name).host


@dev.app.command()
def binaries(
    node: Annotated[bool, typer.Option("--node", help="Also the programs of a node.")] = False,
    helm: Annotated[bool, typer.Option("--helm", help="Also helm, which renders charts.")] = False,
) -> None:
    """Find the programs of a local cluster, or build or unpack them once; print their paths."""
    from windlass_dev import progress
    from windlass_dev.node import requirements
    from windlass_dev.programs import provider, tools

    problem = requirements.unmet_requirement() if node else None
    if problem is not None:
        typer.echo(
            f"cannot run a node on this machine: {problem}; continuing without its programs",
            err=True,
        )
    with_node = node and problem is None
    reporter = progress.reporter_for(sys.stderr)
    paths = dict(provider.provide_programs(None, reporter, node=with_node).binaries)
    if helm:
        paths |= {
            name: str(path)
            for name, path in provider.provide_tools(None, reporter, (tools.HELM,)).items()
        }
    for path in paths.values():
        typer.echo(path)


@dev.app.command()
def generate(
    check: Annotated[
        bool, typer.Option("--check", help="Compare only; fail if a file differs.")
    ] = False,
) -> None:
    """Generate CRDs, roles, samples and reference pages from their declarations."""
    from windlass.cli import generate as generating

    raise typer.Exit(generating.generate(Path.cwd(), check))
