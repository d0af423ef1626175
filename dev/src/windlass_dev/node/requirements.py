"""Whether this machine can run a node, and if not the first reason in one sentence.

Inotify instances are tried before any component starts: a containerd that gets none runs
on without its CRI plugin, and then the kubelet exits for a reason that is hard to find.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import sys
from pathlib import Path

from windlass.base.errors import WindlassError
from windlass_dev.node import cgroups, system

LONGEST_DIRECTORY = 70
"""A socket's path has at most 107 bytes; the longest below the directory takes 37."""

_NEEDED_PROGRAMS = ("ip", "nsenter", "unshare", "mount", "umount")
_FILESYSTEMS = Path("/proc/filesystems")


def unmet_requirement() -> str | None:
    """The first requirement that this machine does not meet; None if it can run a node."""
    checks = (
        _check_platform,
        _check_root,
        _check_programs,
        _check_cgroups,
        _check_overlay,
        _check_namespaces,
    )
    return next((problem for check in checks if (problem := check())), None)


def check_requirements(directory: Path) -> None:
    """Raise `NodeImpossible` if a node cannot run here, or not in `directory`."""
    problem = unmet_requirement() or _check_length(directory)
    if problem:
        raise WindlassError(
            "NodeImpossible",
            f"cannot run a node on this machine: {problem}; "
            "`windlass dev up` without --node still works",
        )


def _check_platform() -> str | None:
    return None if sys.platform == "linux" else "a node requires Linux"


def _check_root() -> str | None:
    return None if os.geteuid() == 0 else "a node requires root"


def _check_programs() -> str | None:
    missing = [
        name for name in _NEEDED_PROGRAMS if not shutil.which(name, path=system.search_path())
    ]
    needs = "a node requires iproute2 and util-linux; not found:"
    return f"{needs} {', '.join(missing)}" if missing else None


def _check_cgroups() -> str | None:
    hierarchies = cgroups.hierarchies()
    if not hierarchies:
        return "no cgroup hierarchy is mounted"
    read_only = [str(hierarchy) for hierarchy in hierarchies if not os.access(hierarchy, os.W_OK)]
    return f"cgroup hierarchy {read_only[0]} is not writable" if read_only else None


def _check_overlay() -> str | None:
    filesystems = _FILESYSTEMS.read_text().split()
    return None if "overlay" in filesystems else "the kernel does not support overlay file systems"


def _check_namespaces() -> str | None:
    # In namespaces that end with the probe, so it leaves nothing behind.
    probe = ("ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1")
    try:
        system.run_command("unshare", "--mount", "--net", *probe)
    except WindlassError as fault:
        return f"could not create a network namespace with links: {fault.message}"
    return None


def _check_length(directory: Path) -> str | None:
    size = len(os.fsencode(directory))
    if size <= LONGEST_DIRECTORY:
        return None
    return (
        f"path {directory} has {size} bytes; sockets in it require at most "
        f"{LONGEST_DIRECTORY} (choose a shorter --name or XDG_STATE_HOME)"
    )


NEEDED_INOTIFY_INSTANCES = 24
"""The components take 17; the rest is for pods."""


def check_inotify() -> None:
    """Raise `WatchesExhausted` if this user cannot get enough inotify instances."""
    free = _available_instances(NEEDED_INOTIFY_INSTANCES)
    if free < NEEDED_INOTIFY_INSTANCES:
        raise WindlassError(
            "WatchesExhausted",
            f"a node requires {NEEDED_INOTIFY_INSTANCES} inotify instances, but only {free} are "
            "available to this user; raise the limit with "
            "`sysctl fs.inotify.max_user_instances=1024` as root on the host, or stop other "
            "clusters or editors",
        )


def _available_instances(limit: int) -> int:
    """How many inotify instances the kernel grants, at most `limit`; all are closed again."""
    library = ctypes.CDLL(None, use_errno=True)
    with contextlib.ExitStack() as stack:
        for opened in range(limit):
            descriptor = library.inotify_init1(os.O_CLOEXEC)
            if descriptor < 0:
                return opened
            stack.callback(os.close, descriptor)
    return limit
