"""Keeps the C library from holding on to memory that Python gave back.

Every thread gets an arena of its own by default, and a snapshot of many objects leaves
holes in each; a process that watches a cluster for months should not pay for its first
minute. Where the C library is another one, nothing happens.
"""

from __future__ import annotations

import contextlib
import ctypes

_ARENA_MAX = -8
_ARENAS = 2


def frugal() -> None:
    """Share few arenas between all threads; to be called before threads start."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)


def trim() -> None:
    """Give unused memory back to the machine; takes milliseconds, so call it in a thread."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
