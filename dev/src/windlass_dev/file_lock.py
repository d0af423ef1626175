"""File locks between processes.

The lock is a `flock` on a file that exists only while it is held: the holder unlinks
it before letting go, so a waiter that locked the old file notices by its inode that the
file is gone and starts over. A killed holder frees the lock by dying.

A child between fork and exec shares the lock (the descriptor closes on exec, not on
fork); so the next holder after a kill sees every child of the killed holder with its
final command line.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_POLL_SECONDS = 0.05


@contextlib.contextmanager
def hold(path: Path, *, on_wait: Callable[[str], None] = lambda holder: None) -> Iterator[None]:
    """Hold the lock `path`; if it is not free, `on_wait` is called once with its holder."""
    descriptor = _try_acquire(path)
    if descriptor is None:
        on_wait(_describe_holder(path))
    while descriptor is None:
        time.sleep(_POLL_SECONDS)
        descriptor = _try_acquire(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _try_acquire(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    # The holder before us may have unlinked the file that we opened.
    if os.fstat(descriptor).st_nlink == 0:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def _describe_holder(path: Path) -> str:
    try:
        return f"process {int(path.read_text())}"
    except (OSError, ValueError):
        return "another process"
