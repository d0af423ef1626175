"""The state file of a cluster: what is kept of it between two commands.

One JSON file in the cluster's directory, replaced in one step. A file that cannot be
read counts as none: then the directory is leftovers, never a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from windlass.base import files

_FILE = "state.json"


@dataclass(frozen=True, slots=True)
class RecordedProcess:
    """A process that cannot be mistaken for a later one with the same pid."""

    pid: int
    started_ticks: int
    executable: str
    since: str


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node: the number of its address block, and where its programs find others."""

    slot: int
    path: str
    plugins: str


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster: its ports and programs, chosen once, and its processes.

    `foreign_etcd` is the address of an etcd that somebody else runs, or empty. Without
    `node` the cluster is a control plane alone.
    """

    name: str
    ports: Mapping[str, int]
    binaries: Mapping[str, str]
    foreign_etcd: str = ""
    etcd_prefix: str = "/registry"
    extra_api_server_args: tuple[str, ...] = ()
    processes: Mapping[str, RecordedProcess] = field(default_factory=dict)
    node: NodeState | None = None

    def with_process(self, component: str, process: RecordedProcess | None) -> ClusterState:
        """The state after `component` was started or, with None, ended."""
        processes = {name: one for name, one in self.processes.items() if name != component}
        if process is not None:
            processes[component] = process
        return replace(self, processes=processes)


def load_state(directory: Path) -> ClusterState | None:
    """The state in `directory`, or None where no whole one is."""
    try:
        return msgspec.json.decode((directory / _FILE).read_bytes(), type=ClusterState)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def save_state(directory: Path, state: ClusterState) -> None:
    """Remember `state`, also over a crash."""
    content = msgspec.json.format(msgspec.json.encode(state), indent=2)
    files.write_atomically(directory / _FILE, content, mode=0o600)
