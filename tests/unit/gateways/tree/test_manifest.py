"""The manifest as text."""

from __future__ import annotations

import pytest

from windlass.gateways.tree import manifest as manifests
from windlass.gateways.tree.manifest import FileStat, ManagedRoot, Manifest, ManifestEntry
from windlass.gateways.tree.path_rules import SyncRefused

ENTRY = ManifestEntry(
    "a" * 64, 10, "b" * 40, "c" * 32, FileStat(10, 2**62, 12), ("systemName",), True
)
FULL = Manifest("c1", "t1", "p", "r", (ManagedRoot("projects", "dir"),), {"projects/ü": ENTRY})


def test_a_manifest_survives_encoding() -> None:
    """Every field is preserved, and the text depends on nothing else."""
    assert manifests.decode(manifests.encode(FULL)) == FULL
    other = Manifest("c1", files={"b": ENTRY, "a": ENTRY})
    assert manifests.encode(other) == manifests.encode(
        Manifest("c1", files=dict(reversed(other.files.items())))
    )


def test_an_entry_is_small() -> None:
    """At most 300 bytes for a file with a path of usual length."""
    files = {f"projects/{'d' * 70}/{number:04}": ENTRY for number in range(100)}
    assert len(manifests.encode(Manifest("c", files=files))) < 100 * 300


def test_a_newer_schema_is_refused() -> None:
    """Whatever else a newer version changed."""
    with pytest.raises(SyncRefused, match="newer version"):
        manifests.decode(b'{"schema":2,"commit":7,"files":[]}')


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"schema":1}', b'{"schema":"1"}'])
def test_a_broken_manifest_is_a_value_error(data: bytes) -> None:
    """The caller treats it as a missing one."""
    with pytest.raises(ValueError, match=r".+"):
        manifests.decode(data)
