"""The cgroup above all pods of one cluster, in every hierarchy that is mounted.

`remove` kills no process: the caller has killed the members first.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from windlass.base.errors import WindlassError
from windlass_dev.node import allocation, system

_POLL_SECONDS = 0.01
_PROCESSES = "cgroup.procs"


def hierarchies() -> list[Path]:
    """The mount points of the machine's cgroups: one (v2), or one per controller (v1)."""
    return [mount.point for mount in system.list_mounts() if mount.kind in ("cgroup", "cgroup2")]


def exist(directory: Path) -> bool:
    """Whether the cluster's cgroup exists in every hierarchy."""
    return all(root.is_dir() for root in _roots(directory))


def create(directory: Path) -> None:
    """Create the cluster's cgroup in every hierarchy; the kubelet requires it."""
    for hierarchy, root in zip(hierarchies(), _roots(directory), strict=True):
        _delegate_controllers(hierarchy)
        root.mkdir(exist_ok=True)


def member_pids(directory: Path) -> Iterator[int]:
    """Every process in the cluster's cgroups."""
    for root in _roots(directory):
        for cgroup in _tree(root):
            with contextlib.suppress(OSError):
                yield from map(int, (cgroup / _PROCESSES).read_text().split())


def remove(directory: Path, *, seconds: float = 5.0) -> None:
    """Remove the cluster's cgroups, deepest first; retry for up to `seconds`."""
    deadline = time.monotonic() + seconds
    for root in _roots(directory):
        for cgroup in reversed(_tree(root)):
            _remove_one(cgroup, deadline)


def _remove_one(cgroup: Path, deadline: float) -> None:
    while True:
        try:
            cgroup.rmdir()
        except FileNotFoundError:
            return
        except OSError as fault:
            if time.monotonic() > deadline:
                raise WindlassError(
                    "CgroupStuck", f"could not remove cgroup {cgroup}: {fault.strerror}; try again"
                ) from fault
            time.sleep(_POLL_SECONDS)
        else:
            return


def _tree(root: Path) -> list[Path]:
    """`root` and all cgroups in it, parents before children."""
    return [Path(path) for path, _, _ in os.walk(root)]


def _roots(directory: Path) -> list[Path]:
    return [hierarchy / allocation.cgroup_name(directory) for hierarchy in hierarchies()]


def _delegate_controllers(hierarchy: Path) -> None:
    # Only the unified hierarchy has these files; a controller that is not delegated at the
    # top is missing in every cgroup below.
    available, enabled = hierarchy / "cgroup.controllers", hierarchy / "cgroup.subtree_control"
    if not available.exists():
        return
    for controller in set(available.read_text().split()) - set(enabled.read_text().split()):
        with contextlib.suppress(OSError):
            enabled.write_text(f"+{controller}")
