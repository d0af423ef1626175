"""Status of local clusters for `windlass dev status`: one report each, one row per component."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass_dev import directories
from windlass_dev.cluster import cluster, cluster_state, components, launch, processes
from windlass_dev.cluster.cluster_state import ClusterState
from windlass_dev.programs import tools


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    """A component: running or dead, and if running since when and how large."""

    name: str
    """Its name, such as `kube-apiserver`."""
    running: bool
    """Whether its recorded process is alive."""
    pid: int | None
    """None if it is dead."""
    port: int | None
    """Its listening port, also while it is dead; None if it has none."""
    since: str
    """Wall-clock time of its start, ISO 8601; empty if it is dead."""
    resident_bytes: int
    """Resident memory; 0 if it is dead."""
    log: Path
    """The file with its output."""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A cluster and its components."""

    name: str
    ready: bool
    """Whether every component runs and passes its readiness check."""
    server: str
    """The URL of the API server."""
    directory: Path
    components: tuple[ComponentStatus, ...]
    """In the order in which they start."""


def cluster_status(name: str) -> ClusterStatus | None:
    """The status of the cluster `name`, None if there is none."""
    directory = directories.cluster_directory(name)
    state = cluster_state.load_state(directory)
    if state is None:
        return None
    rows = tuple(
        _component_status(state, component, directory)
        for component in components.cluster_components(state)
    )
    ready = cluster.is_ready(state, directory)
    return ClusterStatus(name, ready, components.server_url(state), directory, rows)


def all_statuses() -> list[ClusterStatus]:
    """The status of all clusters of this user."""
    return [
        status
        for name in directories.cluster_names()
        if (status := cluster_status(name)) is not None
    ]


def status_document(statuses: list[ClusterStatus]) -> dict[str, Any]:
    """The document that `windlass dev status -o json` prints."""
    return {"clusters": [_cluster_document(status) for status in statuses]}


def _component_status(state: ClusterState, component: str, directory: Path) -> ComponentStatus:
    process = state.processes.get(component)
    alive = process is not None and processes.is_alive(process, directory)
    return ComponentStatus(
        name=component,
        running=alive,
        pid=process.pid if process and alive else None,
        port=state.ports.get(component),
        since=process.since if process and alive else "",
        resident_bytes=processes.resident_bytes(process.pid) if process and alive else 0,
        log=launch.log_file(directory, component),
    )


def _cluster_document(status: ClusterStatus) -> dict[str, Any]:
    return {
        "name": status.name,
        "ready": status.ready,
        "server": status.server,
        "kubernetes": tools.KUBERNETES_VERSION,
        "directory": str(status.directory),
        "components": [
            {
                "name": component.name,
                "state": "running" if component.running else "dead",
                "pid": component.pid,
                "port": component.port,
                "since": component.since or None,
                "rssBytes": component.resident_bytes,
                "log": str(component.log),
            }
            for component in status.components
        ],
    }
