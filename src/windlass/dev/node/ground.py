"""The ground a node stands on: made in one order, taken away in the other.

    make                          remove
    ----------------------------  ------------------------------------------------
    1 what the machine was like   5 put back, by the last node that leaves
    2 namespaces                  3 let go; every mount in them ends
    3 link, addresses, routes     2 deleted; the routes go with it
    4 cgroups                     4 removed, deepest first
    (then processes start)        1 SIGKILL to whoever is in the namespaces or cgroups

`remove` needs no record: everything is found by what the kernel knows of it and by the
cluster's directory. It may run at any time, also after any step of `make`, also twice.
A desk has nothing to be polite about: nobody is asked to end.
"""

from __future__ import annotations

from pathlib import Path

from windlass.base import failpoint
from windlass.dev import processes
from windlass.dev.node import (
    cgroups,
    configuration,
    machine,
    mounts,
    namespaces,
    network,
    watches,
)
from windlass.dev.node.slot import Slot
from windlass.dev.state import Node, Process


def ensure(node: Node, directory: Path) -> None:
    """Make the ground unless it is whole; what half of it there is goes first."""
    if not is_whole(node, directory):
        remove(directory)
        make(node, directory)


def is_whole(node: Node, directory: Path) -> bool:
    """Whether nothing is missing, as after a reboot or an `up` that was killed."""
    return (
        _done(directory).exists()
        and machine.knows(directory)
        and namespaces.exist(directory)
        and network.exists(Slot(node.slot), directory)
        and cgroups.exist(directory)
    )


def make(node: Node, directory: Path) -> None:
    """Make everything that the processes of a node need to find."""
    slot = Slot(node.slot)
    _write(node, slot, directory)
    machine.enter(directory)
    watches.require()
    failpoint.reach("dev.node.machine.after")
    namespaces.make(directory)
    failpoint.reach("dev.node.namespaces.after")
    network.make(slot, directory)
    failpoint.reach("dev.node.network.after")
    cgroups.make(directory)
    failpoint.reach("dev.node.cgroups.after")
    _done(directory).touch()


def remove(directory: Path) -> None:
    """End whatever runs on the ground and take the ground away."""
    _done(directory).unlink(missing_ok=True)
    _end_members(directory)
    failpoint.reach("dev.node.ended.after")
    network.remove(directory)
    namespaces.remove(directory)
    failpoint.reach("dev.node.released.after")
    cgroups.remove(directory)
    machine.leave(directory)


def _end_members(directory: Path) -> None:
    # Again and again: whoever was killed may have started somebody a moment before.
    while victims := _members(directory):
        processes.end(victims, directory)


def _members(directory: Path) -> list[Process]:
    pids = {*namespaces.members(directory), *cgroups.members(directory)}
    return [found for pid in sorted(pids) if (found := processes.of(pid)) is not None]


def _write(node: Node, slot: Slot, directory: Path) -> None:
    networks = configuration.network_directory(directory)
    networks.mkdir(mode=0o700, parents=True, exist_ok=True)
    # An overlay cannot lie on an overlay, which is what root is in many containers.
    kind = "native" if mounts.filesystem(directory) == "overlay" else "overlayfs"
    texts = {
        configuration.containerd_file(directory): configuration.containerd(
            directory, plugins=node.plugins, snapshotter=kind
        ),
        configuration.kubelet_file(directory): configuration.kubelet(directory, slot),
        networks / "10-desk.conflist": configuration.network(directory, slot),
    }
    for path, text in texts.items():
        path.write_text(text)


def _done(directory: Path) -> Path:
    return directory / "node" / "ground"
