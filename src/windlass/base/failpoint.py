"""Failpoints: named points in the code at which a test may kill or fail the process.

`reach("git.push.before")` does nothing unless the variable WINDLASS_FAILPOINTS arms
that name in this process, as `name=action` or `name=action@n` (the n-th visit),
separated by commas. Actions: `kill` (SIGKILL to ourselves: what a power cut looks
like), `error` (an OSError), `full` (ENOSPC). WINDLASS_FAILPOINT_LOG names a file to
which every visited name is appended, so that a test can first record which failpoints a
scenario reaches and then kill the process at each of them.
"""

from __future__ import annotations

import errno
import os
import signal
from collections import Counter

_VARIABLE = "WINDLASS_FAILPOINTS"
_LOG_VARIABLE = "WINDLASS_FAILPOINT_LOG"

_visits: Counter[str] = Counter()


def _parse(text: str) -> dict[str, tuple[str, int]]:
    armed: dict[str, tuple[str, int]] = {}
    for entry in filter(None, text.split(",")):
        name, _, action = entry.partition("=")
        action, _, visit = action.partition("@")
        if action not in {"kill", "error", "full"}:
            raise ValueError(f"{_VARIABLE}: {entry!r} is not name=kill|error|full[@visit]")
        armed[name] = (action, int(visit or 1))
    return armed


_armed = _parse(os.environ.get(_VARIABLE, ""))
_log = os.environ.get(_LOG_VARIABLE)


def reach(name: str) -> None:
    """Reach the failpoint `name`; acts only in a process that is armed for it."""
    if _log is not None:
        _record(name)
    if not _armed:
        return
    action, visit = _armed.get(name, ("", 0))
    if not action:
        return
    _visits[name] += 1
    if _visits[name] == visit:
        _trip(name, action)


def _record(name: str) -> None:
    assert _log is not None
    descriptor = os.open(_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, f"{name}\n".encode())
    finally:
        os.close(descriptor)


def _trip(name: str, action: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    code = errno.ENOSPC if action == "full" else errno.EIO
    raise OSError(code, f"failpoint {name}")
