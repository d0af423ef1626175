"""Kernel setup of a node: created in one order, removed in the other.

`cluster.up` calls `ensure_setup` before components start, `cluster.down` calls `remove`.

    create                        remove
    ----------------------------  ------------------------------------------------
    1 record machine settings     5 restored by the last node that leaves
    2 namespaces                  3 released; every mount in them ends
    3 link, addresses, routes     2 deleted; the routes go with it
    4 cgroups                     4 removed, deepest first
    (then processes start)        1 SIGKILL to every member of namespaces or cgroups

`remove` needs no record: everything is found in the kernel by names derived from the
cluster's directory. It may run at any time, also after any step of `create`, also twice.
Processes of a local cluster are killed, never asked to end.
"""

from __future__ import annotations

from pathlib import Path

from windlass.base import failpoint
from windlass_dev.cluster import processes
from windlass_dev.cluster.cluster_state import NodeState, RecordedProcess
from windlass_dev.node import (
    cgroups,
    config_files,
    host_link,
    kernel_namespaces,
    machine,
    requirements,
    system,
)
from windlass_dev.node.allocation import Slot


def ensure_setup(node: NodeState, directory: Path) -> None:
    """Create the setup unless it is complete; an incomplete one is removed first."""
    if not is_complete(node, directory):
        remove(directory)
        create(node, directory)


def is_complete(node: NodeState, directory: Path) -> bool:
    """Whether every part exists; not so after a reboot or an `up` that was killed."""
    return (
        _complete_marker(directory).exists()
        and machine.is_registered(directory)
        and kernel_namespaces.exist(directory)
        and host_link.exists(Slot(node.slot), directory)
        and cgroups.exist(directory)
    )


def create(node: NodeState, directory: Path) -> None:
    """Create everything that the processes of a node expect to exist."""
    slot = Slot(node.slot)
    _write_config_files(node, slot, directory)
    machine.register_node(directory)
    requirements.check_inotify()
    failpoint.reach("dev.node.machine.after")
    kernel_namespaces.create(directory)
    failpoint.reach("dev.node.namespaces.after")
    host_link.create(slot, directory)
    failpoint.reach("dev.node.network.after")
    cgroups.create(directory)
    failpoint.reach("dev.node.cgroups.after")
    _complete_marker(directory).touch()


def remove(directory: Path) -> None:
    """Kill the processes that use the setup, then remove it."""
    _complete_marker(directory).unlink(missing_ok=True)
    _kill_members(directory)
    failpoint.reach("dev.node.ended.after")
    host_link.remove(directory)
    kernel_namespaces.remove(directory)
    failpoint.reach("dev.node.released.after")
    cgroups.remove(directory)
    machine.unregister_node(directory)


def _kill_members(directory: Path) -> None:
    # Repeated, because a killed process may have started another one a moment before.
    while victims := _member_processes(directory):
        processes.kill_processes(victims, directory)


def _member_processes(directory: Path) -> list[RecordedProcess]:
    pids = {*kernel_namespaces.member_pids(directory), *cgroups.member_pids(directory)}
    return [
        process for pid in sorted(pids) if (process := processes.inspect_process(pid)) is not None
    ]


def _write_config_files(node: NodeState, slot: Slot, directory: Path) -> None:
    networks = config_files.cni_directory(directory)
    networks.mkdir(mode=0o700, parents=True, exist_ok=True)
    # An overlay cannot be mounted on an overlay, the root file system of many containers.
    kind = "native" if system.filesystem_type(directory) == "overlay" else "overlayfs"
    texts = {
        config_files.containerd_path(directory): config_files.containerd_toml(
            directory, plugins=node.plugins, snapshotter=kind
        ),
        config_files.kubelet_path(directory): config_files.kubelet_config(directory, slot),
        networks / "10-desk.conflist": config_files.cni_config(directory, slot),
    }
    for path, text in texts.items():
        path.write_text(text)


def _complete_marker(directory: Path) -> Path:
    return directory / "node" / "ground"
