"""Content behind a descriptor, without a name in any file system.

For secrets that a child or a library must read as a file: there is nothing to find for
others, and nothing stays behind when the process is killed.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def descriptor(content: bytes) -> int:
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
