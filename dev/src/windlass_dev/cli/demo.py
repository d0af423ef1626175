"""`windlass dev demo`, `git`, `binaries`, `generate`: the commands besides the cluster's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from windlass_dev.cli import dev


@dev.app.command()
def demo(
    down: Annotated[bool, typer.Option("--down", help="End what the demo left running.")] = False,
) -> None:
    """Tell three stories on one cluster: a mirror, a gateway, an environment."""
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
    root: Annotated[Path, typer.Option(help="Where the repositories are.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 0,
    node: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Also listen where pods of this cluster can reach it."),
    ] = None,
    create: Annotated[
        list[str] | None, typer.Option(help="Make this empty repository; repeatable.")
    ] = None,
    username: Annotated[str, typer.Option(help="Who may enter with the password.")] = "git",
    password_file: Annotated[
        Path | None, typer.Option(help="File with the password; none lets everybody in.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with a bearer token.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Serve TLS with this.")] = None,
    key: Annotated[Path | None, typer.Option(help="The key of the certificate.")] = None,
    faults: Annotated[
        Path | None, typer.Option(help="File that names faults to inject, read at each request.")
    ] = None,
) -> None:
    """Serve real git repositories by smart HTTP, for trying things and for breaking them."""
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
    node: Annotated[bool, typer.Option("--node", help="Also those that run pods.")] = False,
    helm: Annotated[bool, typer.Option("--helm", help="Also the one that renders charts.")] = False,
) -> None:
    """Find a cluster's programs, or build or unpack them once; print where they are."""
    from windlass_dev import progress
    from windlass_dev.node import requirements
    from windlass_dev.programs import provider, tools

    problem = requirements.unmet_requirement() if node else None
    if problem is not None:
        typer.echo(f"a node cannot run here: {problem}; going on without its programs", err=True)
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
        bool, typer.Option("--check", help="Only compare; fail if it differs.")
    ] = False,
) -> None:
    """Write CRDs, roles, samples and reference pages from their declarations."""
    from windlass.cli import generate as generating

    raise typer.Exit(generating.generate(Path.cwd(), check))
