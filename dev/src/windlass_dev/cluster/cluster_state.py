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
    """Start time in clock ticks since boot, as /proc/PID/stat has it."""
    executable: str
    """The resolved path of its program."""
    since: str
    """Wall-clock time of the start, ISO 8601; empty where it was found, not started."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node: the number of its address block, and where its programs find others."""

    slot: int
    """Number of the address block (`allocation.Slot`)."""
    path: str
    """PATH of every process of the cluster."""
    plugins: str
    """Directory of the CNI plugins."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster: its ports and programs, chosen once, and its processes."""

    name: str
    """The name given to `windlass dev up`; with a node also the node's name."""
    ports: Mapping[str, int]
    """Listening port by component; chosen when the cluster is created."""
    binaries: Mapping[str, str]
    """Path of the program by component; also of kubectl, and with a node of ctr and pause."""
    foreign_etcd: str = ""
    """URL of an etcd that is run elsewhere; empty if the cluster runs its own."""
    etcd_prefix: str = "/registry"
    """Prefix of all keys in etcd; `down` deletes it in a foreign etcd."""
    extra_api_server_args: tuple[str, ...] = ()
    """Further command-line arguments of the API server, for tests."""
    processes: Mapping[str, RecordedProcess] = field(default_factory=dict)
    """The process started last, by component; it may have died since."""
    node: NodeState | None = None
    """None for a control plane alone."""

    def with_process(self, component: str, process: RecordedProcess | None) -> ClusterState:
        """The state after `component` was started or, with None, ended."""
        processes = {name: other for name, other in self.processes.items() if name != component}
        if process is not None:
            processes[component] = process
        return replace(self, processes=processes)


def load_state(directory: Path) -> ClusterState | None:
    """Read the state in `directory`; None if there is none or it cannot be decoded."""
    try:
        return msgspec.json.decode((directory / _FILE).read_bytes(), type=ClusterState)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def save_state(directory: Path, state: ClusterState) -> None:
    """Write `state` atomically, for its owner alone."""
    content = msgspec.json.format(msgspec.json.encode(state), indent=2)
    files.write_atomically(directory / _FILE, content, mode=0o600)
