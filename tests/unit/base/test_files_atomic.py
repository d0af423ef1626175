"""A replaced file is the old one or the new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.base import files


def test_content_and_mode_are_replaced_together(tmp_path: Path) -> None:
    """The new file has its mode from the first moment."""
    target = tmp_path / "file"
    target.write_text("old")
    files.write_atomically(target, b"new", mode=0o600)
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_failure_leaves_the_old_file_alone(tmp_path: Path) -> None:
    """Nothing half-written stays behind."""
    target = tmp_path / "directory"
    target.mkdir()
    with pytest.raises(OSError, match="directory"):
        files.write_atomically(target, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["directory"]
