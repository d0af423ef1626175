"""Names that belong to one cluster."""

from __future__ import annotations

from pathlib import Path

from windlass_dev.node import allocation

ONE, OTHER = Path("/state/dev/a"), Path("/state/dev/b")


def test_identifiers_differ_by_directory_alone() -> None:
    """The same name in another state directory is another cluster."""
    assert allocation.directory_digest(ONE) == allocation.directory_digest(Path("/state/dev/a"))
    assert allocation.cgroup_name(ONE) != allocation.cgroup_name(OTHER)
    assert allocation.hardware_address(ONE) != allocation.hardware_address(OTHER)


def test_hardware_address_is_private_and_whole() -> None:
    """Six bytes, locally administered, for one station."""
    parts = allocation.hardware_address(ONE).split(":")
    assert len(parts) == 6
    assert all(len(part) == 2 for part in parts)
    assert int(parts[0], 16) & 0b11 == 0b10
