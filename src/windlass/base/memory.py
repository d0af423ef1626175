"""Tunes malloc, so that memory freed by Python goes back to the system.

Every thread gets an arena of its own by default, and a snapshot of many objects leaves
holes in each. And each large block that is given back makes it keep larger ones, so that
after a first push even megabytes are cut from the heap. A process that watches a cluster
for months should not pay for its first minute. Where the C library is another one, nothing
happens.
"""

from __future__ import annotations

import contextlib
import ctypes
import resource

_MMAP_THRESHOLD = -3
_LARGE_BYTES = 256 << 10
_ARENA_MAX = -8
_ARENAS = 2


def limit_arenas() -> None:
    """Few arenas for all threads, large blocks apart; to be called before threads start."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_ARENA_MAX, _ARENAS)
        library.mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)


def peak_bytes() -> int:
    """The most memory that this process has ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def trim() -> None:
    """Give unused memory back to the machine; takes milliseconds, so call it in a thread."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
