"""Whether this machine can run a node, and why not, in one sentence."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from windlass.base.errors import WindlassError
from windlass.dev.node import cgroups, system

LONGEST_DIRECTORY = 70
"""A socket's path has at most 107 bytes; the longest below the directory takes 37."""

_PROGRAMS = ("ip", "nsenter", "unshare", "mount", "umount")
_FILESYSTEMS = Path("/proc/filesystems")


def why_not() -> str | None:
    """The first thing that keeps a node from running here; None if it can."""
    checks = (_platform, _root, _programs, _cgroups, _overlay, _namespaces)
    return next((problem for check in checks if (problem := check())), None)


def require(directory: Path) -> None:
    """Refuse to begin what cannot work."""
    problem = why_not() or _length(directory)
    if problem:
        raise WindlassError(
            "NodeImpossible",
            f"a node cannot run here: {problem}; `windlass dev up` without --node still works",
        )


def _platform() -> str | None:
    return None if sys.platform == "linux" else "it needs Linux"


def _root() -> str | None:
    return None if os.geteuid() == 0 else "it needs root, and this user is not"


def _programs() -> str | None:
    missing = [name for name in _PROGRAMS if not shutil.which(name, path=system.path())]
    needs = "it needs iproute2 and util-linux, but there is no"
    return f"{needs} {', '.join(missing)}" if missing else None


def _cgroups() -> str | None:
    found = cgroups.hierarchies()
    if not found:
        return "no cgroups are mounted"
    closed = [str(one) for one in found if not os.access(one, os.W_OK)]
    return f"cgroups cannot be made in {closed[0]}" if closed else None


def _overlay() -> str | None:
    known = _FILESYSTEMS.read_text().split()
    return None if "overlay" in known else "the kernel has no overlay file system"


def _namespaces() -> str | None:
    # In namespaces that end with the probe, so it leaves nothing.
    probe = ("ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1")
    try:
        system.run("unshare", "--mount", "--net", *probe)
    except WindlassError as fault:
        return f"network namespaces with links cannot be made ({fault.message})"
    return None


def _length(directory: Path) -> str | None:
    size = len(os.fsencode(directory))
    if size <= LONGEST_DIRECTORY:
        return None
    return (
        f"{directory} has {size} bytes, and sockets in it need it to have at most "
        f"{LONGEST_DIRECTORY} (choose a shorter --name or XDG_STATE_HOME)"
    )
