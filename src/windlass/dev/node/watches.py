"""Whether the kernel still lets the parts of a node watch files.

A containerd that may not goes on without the half that serves the kubelet, and then it is
the kubelet that ends, for a reason that nobody understands. So it is tried before.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

from windlass.base.errors import WindlassError

NEEDED = 24
"""What the parts take, 17, and some for pods."""


def require() -> None:
    """Refuse to begin where watches would run out."""
    free = _granted(NEEDED)
    if free < NEEDED:
        raise WindlassError(
            "WatchesExhausted",
            f"a node needs {NEEDED} inotify instances and the kernel gives this user {free} more; "
            "`sysctl fs.inotify.max_user_instances=1024` as root on the machine itself gives "
            "more, ending other clusters or editors frees some",
        )


def _granted(wanted: int) -> int:
    """How many of `wanted` the kernel gives; they are given back at once."""
    library = ctypes.CDLL(None, use_errno=True)
    with contextlib.ExitStack() as stack:
        for count in range(wanted):
            descriptor = library.inotify_init1(os.O_CLOEXEC)
            if descriptor < 0:
                return count
            stack.callback(os.close, descriptor)
    return wanted
