"""Which permissions our files get (PRO-6).

Git's modes do not matter. The gateway must be able to read and to replace what we write:
either we are the user that owns its data directory, or both share the volume's group.
Anything else is refused, because the gateway would fail on our files at a random moment.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from windlass.base.errors import Stalled


@dataclass(frozen=True, slots=True)
class Modes:
    """The permissions of new files and new directories."""

    file: int
    directory: int


OWNER = Modes(0o644, 0o755)
GROUP = Modes(0o664, 0o775)

_SHARED = stat.S_ISGID | stat.S_IWGRP


def decide(root: os.stat_result, *, user: int, groups: frozenset[int]) -> Modes:
    """The permissions that fit the data directory `root`, for a process of `user`."""
    if root.st_uid == user:
        return OWNER
    if root.st_gid in groups and root.st_mode & _SHARED == _SHARED:
        return GROUP
    raise Stalled(
        "VolumeReadOnly",
        f"the data directory belongs to user {root.st_uid}, the agent runs as {user} and they "
        "share no group with write permission: run both as one user, or set fsGroup on the pod",
    )


def of_process(root: os.stat_result) -> Modes:
    """The permissions that fit the data directory `root`, for this process."""
    return decide(root, user=os.geteuid(), groups=frozenset((os.getegid(), *os.getgroups())))
