"""Atomic file writes, and anonymous files.

A file that is written here has either the old or the new content, also after a power cut. An
anonymous file is for secrets that a child or a library must read as a file: no other process
finds it, and nothing stays behind when the process is killed.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Replace `path` by `content` in one step; the temporary file lies beside it."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def anonymous_file(content: bytes) -> int:
    """A descriptor to read `content` from; the caller closes it."""
    if hasattr(os, "memfd_create"):
        opened = os.memfd_create("windlass", os.MFD_CLOEXEC)
    else:
        opened, name = tempfile.mkstemp(prefix="windlass-")
        Path(name).unlink()
    view = memoryview(content)
    while view:
        view = view[os.write(opened, view) :]
    return opened
