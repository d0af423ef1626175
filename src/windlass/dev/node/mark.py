"""By what the kernel's things of one cluster are known to be its own.

Pure. Everything is derived from the cluster's directory, so `down` needs no record to
find what belongs to a cluster, and can never take another cluster's for its own.
"""

from __future__ import annotations

import hashlib
from pathlib import Path


def of(directory: Path) -> str:
    """Eight characters that no other directory has."""
    return hashlib.sha256(str(directory).encode()).hexdigest()[:8]


def cgroup(directory: Path) -> str:
    """The cgroup above all pods of the cluster."""
    return f"windlass-{of(directory)}"


def hardware_address(directory: Path) -> str:
    """The address that the machine's end of the cluster's link was given when it was made."""
    digits = of(directory)
    # 0a: locally administered, for one station.
    return ":".join(["0a", "57", *(digits[at : at + 2] for at in range(0, 8, 2))])
