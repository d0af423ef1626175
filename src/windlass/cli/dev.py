"""`windlass dev`: a cluster on this machine, for work and for tests.

Results go to stdout, progress and faults to stderr. Only typer is imported up here;
the rest comes when a command runs, so that asking for help stays fast.
"""

from __future__ import annotations

import contextlib
import enum
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

if TYPE_CHECKING:
    from windlass.dev.progress import Progress
    from windlass.dev.status import ClusterStatus, ComponentStatus

app = typer.Typer(
    name="dev",
    help="A local Kubernetes: a control plane, and with a node also pods.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Option("--name", metavar="NAME", help="Which cluster.")]


class Output(enum.StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"


@app.command()
def up(
    name: Name = "dev",
    binaries: Annotated[
        Path | None,
        typer.Option(help="A directory with exactly the needed programs, instead of the cache."),
    ] = None,
    node: Annotated[
        bool, typer.Option("--node", help="With a node that runs pods; needs root on Linux.")
    ] = False,
) -> None:
    """Bring a cluster up, or repair it; does nothing to one that runs."""
    with _faults_told():
        from windlass.dev import cluster

        desk = cluster.up(name, progress=_progress(), binaries_directory=binaries, node=node)
        option = "" if name == "dev" else f" --name {name}"
        _say(f'use it:  eval "$(windlass dev env{option})"')
        typer.echo(desk.server)


@app.command()
def down(
    name: Name = "dev",
    every: Annotated[bool, typer.Option("--all", help="All clusters of this user.")] = False,
) -> None:
    """End a cluster and remove everything it left, also after a crash."""
    with _faults_told():
        from windlass.dev import cluster, places

        for one in places.names() if every else [name]:
            existed = cluster.down(one, progress=_progress())
            _say(f"cluster {one!r} is gone" if existed else f"there is no cluster {one!r}")


@app.command()
def load(
    archive: Annotated[Path, typer.Argument(metavar="IMAGE.tar", help="An OCI or Docker archive.")],
    name: Name = "dev",
) -> None:
    """Give a cluster's node an image, for pods that do not pull; prints its name."""
    with _faults_told():
        from windlass.dev import desk, state
        from windlass.dev.node import containerd

        found = desk.named(name)
        now = state.load(found.directory)
        assert now is not None
        for image in containerd.load(now, found.directory, archive):
            typer.echo(image)


@app.command()
def status(
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Only this cluster.")
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print.")] = Output.TABLE,
) -> None:
    """Show every cluster and its components; with --name fails unless that one is ready."""
    with _faults_told():
        from windlass.dev import status as report

        one = report.of(name) if name else None
        statuses = ([one] if one else []) if name else report.every()
        if output is Output.JSON:
            import json

            typer.echo(json.dumps(report.document(statuses), indent=2))
        else:
            _print_table(statuses)
        if name and not (one and one.ready):
            raise typer.Exit(1)


@app.command()
def logs(
    component: Annotated[
        str | None, typer.Argument(help="A component as `status` lists it.")
    ] = None,
    name: Name = "dev",
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")
    ] = None,
) -> None:
    """Print the last lines of a component's log, or of every component's."""
    with _faults_told():
        from windlass.dev import launch

        found = _cluster(name)
        for row in _rows(found, component):
            if component is None:
                typer.echo(f"==> {row.name}: {row.log} <==")
            wanted = lines if lines is not None else (10 if component is None else 200)
            for line in launch.last_lines(row.log, wanted):
                typer.echo(line)


@app.command()
def env(
    name: Name = "dev",
    user: Annotated[
        str | None, typer.Option(help="Act as this user instead of the administrator.")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="A group of that user; may be repeated.")
    ] = None,
) -> None:
    """Print shell lines that point kubectl at the cluster, for `eval`."""
    with _faults_told():
        from windlass.dev import desk

        if group and not user:
            raise typer.BadParameter("--group needs --user: the administrator's groups are fixed")
        found = desk.named(name)
        path = found.user_kubeconfig(user, group or ()) if user else found.admin_kubeconfig
        lines = _exports(path, found.kubectl.parent, os.environ.get("PATH", ""))
        for line in [*lines, *_without_proxy(found.server, os.environ)]:
            typer.echo(line)


def _exports(kubeconfig: Path, programs: Path, path: str) -> list[str]:
    lines = [f"export KUBECONFIG={shlex.quote(str(kubeconfig))}"]
    if path.split(os.pathsep)[0] != str(programs):
        lines.append(f'export PATH={shlex.quote(str(programs))}:"$PATH"')
    return lines


def _without_proxy(server: str, environment: Mapping[str, str]) -> list[str]:
    """Clients go to loopback themselves; to a cluster with a node they would ask the proxy."""
    host = urlsplit(server).hostname
    proxies = {name for name in environment if name.lower() in ("http_proxy", "https_proxy")}
    if host == "127.0.0.1" or not proxies:
        return []
    return [f'export {name}="{host}${{{name}:+,${name}}}"' for name in ("NO_PROXY", "no_proxy")]


def _cluster(name: str) -> ClusterStatus:
    from windlass.dev import desk, status

    found = status.of(name)
    if found is None:
        raise desk.missing(name)
    return found


def _rows(found: ClusterStatus, component: str | None) -> list[ComponentStatus]:
    rows = [row for row in found.components if component in (None, row.name)]
    if not rows:
        known = ", ".join(row.name for row in found.components)
        raise typer.BadParameter(f"no component {component!r} in cluster {found.name!r}: {known}")
    return rows


def _print_table(statuses: list[ClusterStatus]) -> None:
    if not statuses:
        _say("no cluster; `windlass dev up` makes one")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("CLUSTER", "READY", "COMPONENT", "STATE", "PID", "PORT", "SINCE", "RSS"):
        table.add_column(heading, no_wrap=True)
    for found in statuses:
        for index, row in enumerate(found.components):
            head = (found.name, "yes" if found.ready else "no") if index == 0 else ("", "")
            table.add_row(*head, *_cells(row))
    # A pipe has no width; a table squeezed into 80 columns would lose its ends there.
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _cells(row: ComponentStatus) -> tuple[str, ...]:
    port = str(row.port or "-")
    if not row.running:
        return (row.name, "dead", "-", port, "-", "-")
    size = f"{row.resident_bytes / 2**20:.0f} MiB"
    return (row.name, "running", str(row.pid), port, row.since, size)


def _progress() -> Progress:
    from windlass.dev import progress

    return progress.for_stream(sys.stderr)


def _say(text: str) -> None:
    typer.echo(text, err=True)


@contextlib.contextmanager
def _faults_told() -> Iterator[None]:
    from windlass.base.errors import WindlassError

    try:
        yield
    except WindlassError as fault:
        _say(f"error: {fault}")
        raise typer.Exit(1) from fault
    except KeyboardInterrupt as interrupt:
        _say("interrupted; `windlass dev up` goes on from here, `windlass dev down` cleans up")
        raise typer.Exit(130) from interrupt
