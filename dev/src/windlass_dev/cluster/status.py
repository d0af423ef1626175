"""Status of local clusters: one report per cluster, one row per component."""

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
    """A component: alive or dead, and if alive since when and how large."""

    name: str
    running: bool
    pid: int | None
    port: int | None
    since: str
    resident_bytes: int
    log: Path


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A cluster: ready means that every component lives and the API server says so."""

    name: str
    ready: bool
    server: str
    directory: Path
    components: tuple[ComponentStatus, ...]


def cluster_status(name: str) -> ClusterStatus | None:
    """The status of the cluster `name`, None if there is none."""
    directory = directories.cluster_directory(name)
    now = cluster_state.load_state(directory)
    if now is None:
        return None
    rows = tuple(
        _component_status(now, component, directory)
        for component in components.cluster_components(now)
    )
    ready = cluster.is_ready(now, directory)
    return ClusterStatus(name, ready, components.server_url(now), directory, rows)


def all_statuses() -> list[ClusterStatus]:
    """The status of all clusters of this user."""
    return [
        status
        for name in directories.cluster_names()
        if (status := cluster_status(name)) is not None
    ]


def status_document(statuses: list[ClusterStatus]) -> dict[str, Any]:
    """What `windlass dev status -o json` prints."""
    return {"clusters": [_cluster_document(status) for status in statuses]}


def _component_status(now: ClusterState, component: str, directory: Path) -> ComponentStatus:
    process = now.processes.get(component)
    alive = process is not None and processes.is_alive(process, directory)
    return ComponentStatus(
        name=component,
        running=alive,
        pid=process.pid if process and alive else None,
        port=now.ports.get(component),
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
                "name": one.name,
                "state": "running" if one.running else "dead",
                "pid": one.pid,
                "port": one.port,
                "since": one.since or None,
                "rssBytes": one.resident_bytes,
                "log": str(one.log),
            }
            for one in status.components
        ],
    }
