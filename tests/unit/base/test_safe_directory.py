"""Nothing outside the root is ever read or written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from windlass.base.safe_directory import SafeDirectory


def test_a_file_is_created_with_its_parent_directories(tmp_path: Path) -> None:
    """Written content is read back, and no temporary file stays."""
    below = SafeDirectory(tmp_path / "root")
    below.write("a/b/c.yaml", b"one")
    below.write("a/b/c.yaml", b"two")
    assert below.read("a/b/c.yaml", limit=100) == b"two"
    assert list(below.files("")) == ["a/b/c.yaml"]


@pytest.mark.parametrize("path", ["../x", "a/../x", "/x", "a//b", ".", "", "a/./b"])
def test_paths_outside_the_root_are_refused(tmp_path: Path, path: str) -> None:
    """Before anything is opened."""
    with pytest.raises(ValueError, match="not a path below"):
        SafeDirectory(tmp_path).write(path, b"x")


def test_a_symlinked_directory_is_not_followed(tmp_path: Path) -> None:
    """A link in the path makes the write fail."""
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "root"
    root.mkdir()
    (root / "v1").symlink_to(outside)
    with pytest.raises(OSError, match="v1"):
        SafeDirectory(root).write("v1/x.yaml", b"x")
    assert list(outside.iterdir()) == []


def test_a_symlinked_file_is_replaced_not_followed(tmp_path: Path) -> None:
    """The target of a link keeps its content."""
    secret = tmp_path / "secret"
    secret.write_text("keep")
    root = tmp_path / "root"
    root.mkdir()
    (root / "x").symlink_to(secret)
    below = SafeDirectory(root)
    with pytest.raises(OSError, match="x"):
        below.read("x", limit=10)
    below.write("x", b"new")
    assert secret.read_text() == "keep"
    assert (root / "x").read_bytes() == b"new"


def test_removing_the_last_file_removes_empty_directories(tmp_path: Path) -> None:
    """Directories with something left in them stay."""
    below = SafeDirectory(tmp_path)
    below.write("a/b/one", b"1")
    below.write("a/two", b"2")
    below.remove("a/b/one")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["two"]


def test_reading_is_bounded(tmp_path: Path) -> None:
    """A huge file is cut one byte past the limit, so that the caller notices."""
    below = SafeDirectory(tmp_path)
    below.write("big", b"x" * 100)
    content = below.read("big", limit=10)
    assert content is not None
    assert len(content) == 11


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    """Reading does not wait for a writer, and a pipe is not listed as a file."""
    os.mkfifo(tmp_path / "pipe")
    below = SafeDirectory(tmp_path)
    with pytest.raises(OSError, match="not a plain file"):
        below.read("pipe", limit=10)
    assert list(below.files("")) == []
