"""Content without a name."""

from __future__ import annotations

import os
from pathlib import Path

from windlass.base import files


def test_content_is_read_again_and_again_and_has_no_name() -> None:
    """By offset and by the descriptor's own path; in no directory, and not for children."""
    content = b"secret" * 100_000
    opened = files.anonymous_file(content)
    try:
        assert os.pread(opened, len(content) + 1, 0) == content
        fd_path = Path(f"/proc/self/fd/{opened}")
        assert fd_path.read_bytes() == content
        assert fd_path.read_bytes() == content
        assert not fd_path.readlink().exists()
        assert not os.get_inheritable(opened)
    finally:
        os.close(opened)
