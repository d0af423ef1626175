"""The network and mount namespaces that all processes of one cluster share.

Both namespaces are bind-mounted on files under the cluster's directory, so they outlive
every process. Mounts for pods are visible to kubelet and containerd alike, to nothing on
the machine, and end with the namespace. Fixed paths that kubelet and containerd write to
(`MOUNT_POINTS`) lead into the cluster's directory inside the namespace, so two clusters,
or a cluster and a real node, never share them.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from windlass_dev.node import system

MOUNT_POINTS = (
    Path("/var/lib/kubelet"),
    Path("/var/lib/cni"),
    Path("/run/containerd"),
    Path("/var/log/containers"),
)

ENTER_PROGRAM = "nsenter"
"""The program that enters namespaces and then becomes the given command."""

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
_KINDS = ("mnt", "net")
_PROC = Path("/proc")


def network_file(directory: Path) -> Path:
    """The file on which the cluster's network namespace is mounted."""
    return _holder_directory(directory) / "net"


def enter_command(directory: Path) -> list[str]:
    """The prefix of a command that runs in the cluster's namespaces."""
    holder = _holder_directory(directory)
    return [ENTER_PROGRAM, f"--mount={holder}/mnt", f"--net={holder}/net", "--"]


def exist(directory: Path) -> bool:
    """Whether both namespaces are mounted on their files."""
    held = {mount.point for mount in system.list_mounts() if mount.kind == "nsfs"}
    return held >= {_holder_directory(directory) / kind for kind in _KINDS}


def create(directory: Path) -> None:
    """Create both namespaces; every path of `MOUNT_POINTS` must exist."""
    holder = _holder_directory(directory)
    holder.mkdir(mode=0o700, exist_ok=True)
    for kind in _KINDS:
        (holder / kind).touch()
    # The kernel refuses to mount a mount namespace on a file whose mount is shared.
    system.run_command("mount", "--bind", str(holder), str(holder))
    system.run_command("mount", "--make-private", str(holder))
    holder_options = [
        f"--{name}={holder}/{kind}" for name, kind in (("mount", "mnt"), ("net", "net"))
    ]
    # slave: what the machine unmounts is unmounted in the namespace too, never in reverse.
    system.run_command("unshare", *holder_options, "--propagation", "slave", "true")
    for point in MOUNT_POINTS:
        target = directory / "fixed" / point.relative_to("/")
        target.mkdir(parents=True, exist_ok=True)
        system.run_command(*enter_command(directory), "mount", "--bind", str(target), str(point))


def remove(directory: Path) -> None:
    """Unmount both namespaces; they and their mounts end with their last process."""
    system.unmount_below(directory)


def member_pids(directory: Path) -> Iterator[int]:
    """Every process in one of the cluster's namespaces."""
    if not exist(directory):
        return
    own = {kind: _identity(_holder_directory(directory) / kind) for kind in _KINDS}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and any(_identity(entry / "ns" / k) == own[k] for k in _KINDS):
            yield int(entry.name)


def run_in_network(directory: Path, action: Callable[[], T]) -> T:
    """Run `action` in the cluster's network namespace and return its result.

    It runs on a thread of its own, because `setns` changes the calling thread for good.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(_setns_and_run, network_file(directory), action).result()


def _setns_and_run(file: Path, action: Callable[[], T]) -> T:
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(file, os.O_RDONLY)
    try:
        if library.setns(descriptor, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(file))
    finally:
        os.close(descriptor)
    return action()


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _holder_directory(directory: Path) -> Path:
    return directory / "namespaces"
