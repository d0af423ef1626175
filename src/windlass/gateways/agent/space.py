"""Keeps the gateway's disk from filling up (APP-5).

The gateway writes to the same volume; a sync that takes the last byte stops it. Whatever
we are about to write must leave `share` of the volume and at least `minimum` bytes free.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.base.errors import Retryable
from windlass.gateways.agent.tree import Tree

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Reserve:
    """What must stay free on every file system that we write to."""

    share: float = 0.05
    minimum: int = 256 * MEBIBYTE

    def of(self, total: int) -> int:
        return max(int(total * self.share), self.minimum)

    def check(self, tree: Tree, folder: str, wanted: int) -> None:
        """Raise DiskFull where `wanted` more bytes in `folder` would touch the reserve."""
        found = tree.space(folder)
        free = found.f_bavail * found.f_frsize
        reserve = self.of(found.f_blocks * found.f_frsize)
        if free - wanted < reserve:
            raise Retryable(
                "DiskFull",
                f"the data volume has {_shown(free)} free; this sync needs {_shown(wanted)} more "
                f"and {_shown(reserve)} must stay free: enlarge the volume or remove files",
            )


def _shown(size: int) -> str:
    """A size that never reads as nothing where it is something."""
    for unit, bytes_ in (("GiB", MEBIBYTE << 10), ("MiB", MEBIBYTE), ("KiB", 1 << 10)):
        if size >= bytes_:
            return f"{size / bytes_:.1f} {unit}"
    return "1 byte" if size == 1 else f"{size} bytes"
