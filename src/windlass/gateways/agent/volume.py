"""Faults of the data volume as errors that say what happens next.

A full, read-only or failing volume is tried again: nothing that we began is lost by it,
because the journal resumes it. A tree that somebody changed under our hands is planned
again. Texts name the place and the fix.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from windlass.base.errors import Retryable
from windlass.base.redaction import process

_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
_REFUSED = frozenset((errno.EACCES, errno.EPERM))
_CHANGED = frozenset(
    (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.EBUSY)
)


@contextlib.contextmanager
def faults(doing: str) -> Iterator[None]:
    """Turn what the disk answers inside the block into windlass errors."""
    try:
        yield
    except OSError as error:
        raise translated(error, doing) from error


def translated(error: OSError, doing: str) -> Retryable:
    """The windlass error for what the disk answered while `doing`."""
    reason, hint = _meaning(error.errno)
    said = os.strerror(error.errno) if error.errno is not None else str(error)
    place = f" ({error.filename})" if isinstance(error.filename, str) else ""
    text = f"while {doing}{place}: {said}; {hint}"
    return Retryable(reason, process.clean(text, limit=512))


def _meaning(code: int | None) -> tuple[str, str]:
    if code in _FULL:
        return "DiskFull", "make room on the data volume; the sync completes by itself then"
    if code == errno.EROFS:
        return "VolumeReadOnly", "the data volume is mounted read-only; mount it writable"
    if code in _REFUSED:
        return "VolumeReadOnly", "the agent may not write there; give it the gateway's user"
    if code in _CHANGED:
        return "Retrying", "the files changed while we looked; they are planned again"
    return "Internal", "check the data volume; the sync is tried again"
