"""`windlass dev`: a cluster on this machine, for development and for tests.

Results go to stdout, progress and errors to stderr. Only typer is imported at the top;
the rest is imported when a command runs, so that `--help` stays fast.
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
    from windlass_dev.cluster.status import ClusterStatus, ComponentStatus
    from windlass_dev.progress import ProgressReporter

app = typer.Typer(
    name="dev",
    help="Local Kubernetes clusters: a control plane, and optionally a node that runs pods.",
    no_args_is_help=True,
)

ClusterName = Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the cluster.")]


class OutputFormat(enum.StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"


@app.command()
def up(
    name: ClusterName = "dev",
    binaries: Annotated[
        Path | None,
        typer.Option(
            help="Directory with all programs in the required versions, instead of the cache."
        ),
    ] = None,
    node: Annotated[
        bool, typer.Option("--node", help="Add a node that runs pods; requires root on Linux.")
    ] = False,
) -> None:
    """Create a cluster or repair an existing one; prints the URL of its API server."""
    with _errors_on_stderr():
        from windlass_dev.cluster import cluster

        local_cluster = cluster.up(
            name, progress=_stderr_reporter(), binaries_directory=binaries, node=node
        )
        option = "" if name == "dev" else f" --name {name}"
        _echo_stderr(f'to use it, run: eval "$(windlass dev env{option})"')
        typer.echo(local_cluster.server)


@app.command()
def down(
    name: ClusterName = "dev",
    every: Annotated[bool, typer.Option("--all", help="All clusters of this user.")] = False,
) -> None:
    """Stop a cluster and remove everything it left, also after a crash."""
    with _errors_on_stderr():
        from windlass_dev import directories
        from windlass_dev.cluster import cluster

        for cluster_name in directories.cluster_names() if every else [name]:
            existed = cluster.down(cluster_name, progress=_stderr_reporter())
            _echo_stderr(
                f"cluster {cluster_name!r} removed"
                if existed
                else f"cluster {cluster_name!r} not found"
            )


@app.command()
def load(
    archive: Annotated[Path, typer.Argument(metavar="IMAGE.tar", help="An OCI or Docker archive.")],
    name: ClusterName = "dev",
) -> None:
    """Import an image into the cluster's node, for pods that do not pull; prints its name."""
    with _errors_on_stderr():
        from windlass_dev.cluster import cluster_state, local_cluster
        from windlass_dev.node import containerd

        selected = local_cluster.get_cluster(name)
        state = cluster_state.load_state(selected.directory)
        assert state is not None
        for image in containerd.import_images(state, selected.directory, archive):
            typer.echo(image)


@app.command()
def status(
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Only this cluster.")
    ] = None,
    output: Annotated[
        OutputFormat, typer.Option("--output", "-o", help="Output format.")
    ] = OutputFormat.TABLE,
) -> None:
    """Show clusters and their components; with --name, fail unless that cluster is ready."""
    with _errors_on_stderr():
        from windlass_dev.cluster import status as status_report

        selected = status_report.cluster_status(name) if name else None
        statuses = ([selected] if selected else []) if name else status_report.all_statuses()
        if output is OutputFormat.JSON:
            import json

            typer.echo(json.dumps(status_report.status_document(statuses), indent=2))
        else:
            _print_table(statuses)
        if name and not (selected and selected.ready):
            raise typer.Exit(1)


@app.command()
def logs(
    component: Annotated[
        str | None, typer.Argument(help="Component, as listed by `status`; all if omitted.")
    ] = None,
    name: ClusterName = "dev",
    lines: Annotated[
        int | None,
        typer.Option(
            "--lines",
            "-n",
            min=0,
            help="Number of lines; default 200, or 10 per component.",
        ),
    ] = None,
) -> None:
    """Print the end of the log of one component, or of all components."""
    with _errors_on_stderr():
        from windlass_dev.cluster import launch

        report = _get_status(name)
        for row in _select_components(report, component):
            if component is None:
                typer.echo(f"==> {row.name}: {row.log} <==")
            count = lines if lines is not None else (10 if component is None else 200)
            for line in launch.last_lines(row.log, count):
                typer.echo(line)


@app.command()
def env(
    name: ClusterName = "dev",
    user: Annotated[
        str | None, typer.Option(help="Act as this user instead of the administrator.")
    ] = None,
    group: Annotated[list[str] | None, typer.Option(help="Group of that user; repeatable.")] = None,
) -> None:
    """Print shell commands that point kubectl at the cluster, for `eval`."""
    with _errors_on_stderr():
        from windlass_dev.cluster import local_cluster

        if group and not user:
            raise typer.BadParameter(
                "--group requires --user; the groups of the administrator are fixed"
            )
        selected = local_cluster.get_cluster(name)
        path = selected.user_kubeconfig(user, group or ()) if user else selected.admin_kubeconfig
        lines = _export_lines(path, selected.kubectl.parent, os.environ.get("PATH", ""))
        for line in [*lines, *_no_proxy_lines(selected.server, os.environ)]:
            typer.echo(line)


def _export_lines(kubeconfig: Path, programs: Path, path: str) -> list[str]:
    lines = [f"export KUBECONFIG={shlex.quote(str(kubeconfig))}"]
    if path.split(os.pathsep)[0] != str(programs):
        lines.append(f'export PATH={shlex.quote(str(programs))}:"$PATH"')
    return lines


def _no_proxy_lines(server: str, environment: Mapping[str, str]) -> list[str]:
    """Lines that exempt the API server from a proxy; clients exempt only loopback themselves."""
    host = urlsplit(server).hostname
    proxies = {name for name in environment if name.lower() in ("http_proxy", "https_proxy")}
    if host == "127.0.0.1" or not proxies:
        return []
    return [f'export {name}="{host}${{{name}:+,${name}}}"' for name in ("NO_PROXY", "no_proxy")]


def _get_status(name: str) -> ClusterStatus:
    from windlass_dev.cluster import local_cluster, status

    report = status.cluster_status(name)
    if report is None:
        raise local_cluster.cluster_missing_error(name)
    return report


def _select_components(report: ClusterStatus, component: str | None) -> list[ComponentStatus]:
    rows = [row for row in report.components if component in (None, row.name)]
    if not rows:
        known = ", ".join(row.name for row in report.components)
        raise typer.BadParameter(
            f"cluster {report.name!r} has no component {component!r}; available: {known}"
        )
    return rows


def _print_table(statuses: list[ClusterStatus]) -> None:
    if not statuses:
        _echo_stderr("no clusters found; create one with `windlass dev up`")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("CLUSTER", "READY", "COMPONENT", "STATE", "PID", "PORT", "SINCE", "RSS"):
        table.add_column(heading, no_wrap=True)
    for report in statuses:
        for index, row in enumerate(report.components):
            head = (report.name, "yes" if report.ready else "no") if index == 0 else ("", "")
            table.add_row(*head, *_table_cells(row))
    # A pipe has no width; a table squeezed into 80 columns would lose its ends there.
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _table_cells(row: ComponentStatus) -> tuple[str, ...]:
    port = str(row.port or "-")
    if not row.running:
        return (row.name, "dead", "-", port, "-", "-")
    size = f"{row.resident_bytes / 2**20:.0f} MiB"
    return (row.name, "running", str(row.pid), port, row.since, size)


def _stderr_reporter() -> ProgressReporter:
    from windlass_dev import progress

    return progress.reporter_for(sys.stderr)


def _echo_stderr(text: str) -> None:
    typer.echo(text, err=True)


@contextlib.contextmanager
def _errors_on_stderr() -> Iterator[None]:
    from windlass.base.errors import WindlassError

    try:
        yield
    except WindlassError as fault:
        _echo_stderr(f"error: {fault}")
        raise typer.Exit(1) from fault
    except KeyboardInterrupt as interrupt:
        _echo_stderr("interrupted; `windlass dev up` resumes, `windlass dev down` cleans up")
        raise typer.Exit(130) from interrupt
