"""Tests of what a cluster's things are known by."""

from __future__ import annotations

from pathlib import Path

from windlass.dev.node import mark

ONE, OTHER = Path("/state/dev/a"), Path("/state/dev/b")


def test_marks_differ_by_directory_alone() -> None:
    """The same name in another state directory is another cluster."""
    assert mark.of(ONE) == mark.of(Path("/state/dev/a"))
    assert mark.cgroup(ONE) != mark.cgroup(OTHER)
    assert mark.hardware_address(ONE) != mark.hardware_address(OTHER)


def test_hardware_address_is_private_and_whole() -> None:
    """Six bytes, locally administered, for one station."""
    parts = mark.hardware_address(ONE).split(":")
    assert len(parts) == 6
    assert all(len(part) == 2 for part in parts)
    assert int(parts[0], 16) & 0b11 == 0b10
