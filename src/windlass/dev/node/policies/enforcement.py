"""Whether policies are in force: the enforcer says so in a file, with its own number.

The word of one that has died is worth nothing, though its chains are still there.
"""

from __future__ import annotations

import os
from pathlib import Path

from windlass.base import atomic


def declare(directory: Path) -> None:
    """Say that what the server last told is in force."""
    atomic.write_bytes(_file(directory), str(os.getpid()).encode())


def withdraw(directory: Path) -> None:
    """Say that it is not."""
    _file(directory).unlink(missing_ok=True)


def is_declared(directory: Path, pid: int) -> bool:
    """Whether the enforcer with this number says so."""
    try:
        return _file(directory).read_text() == str(pid)
    except FileNotFoundError:
        return False


def _file(directory: Path) -> Path:
    return directory / "node" / "policies-in-force"
