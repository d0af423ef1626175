"""`windlass dev demo`, `binaries`, `generate`: the commands besides the cluster's own."""

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
