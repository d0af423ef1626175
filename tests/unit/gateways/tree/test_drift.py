"""How a gateway's tree differs from the last sync."""

from __future__ import annotations

import pytest

from windlass.gateways.tree import live_tree
from windlass.gateways.tree.live_tree import FileDrift
from windlass.gateways.tree.manifest import FileStat, Manifest, ManifestEntry

STATS = {
    name: FileStat(1, number, number) for number, name in enumerate(("a", "b", "r/resource.json"))
}
MANIFEST = Manifest(
    "c",
    files={
        **{name: ManifestEntry(f"sha {name}", 1, "b", stat=stat) for name, stat in STATS.items()},
        "gone": ManifestEntry("sha gone", 1, "b", stat=FileStat(1, 9, 9)),
    },
)


def test_only_touched_files_are_hashed() -> None:
    """DRF-1: a full check hashes all existing files."""
    touched = {**STATS, "b": FileStat(1, 77, 1)}
    assert live_tree.drift_suspects(MANIFEST, STATS) == ()
    assert live_tree.drift_suspects(MANIFEST, touched) == ("b",)
    assert live_tree.drift_suspects(MANIFEST, STATS, everything=True) == (
        "a",
        "b",
        "r/resource.json",
    )


@pytest.mark.scenario("G47")
def test_modified_missing_and_extra_files_are_distinguished() -> None:
    """A touched file with equal content is not drift."""
    hashes = {"a": "sha a", "b": "other", "r/resource.json": "stamped"}
    drift = live_tree.find_drift(MANIFEST, STATS, hashes, ["x", "a"], stamped={"r/resource.json"})
    assert drift == FileDrift(("b",), ("gone",), ("x",), ("r/resource.json",))
    assert drift.has_drift
    assert not FileDrift(noise=("r/resource.json",)).has_drift


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        (b'{"attributes":{"lastModification":{"actor":"x"},"e":1},"version":1}', True),
        (b'{"version":1,"attributes":{"e":1,"lastModificationSignature":"z"}}', True),
        (b'{"version":1,"attributes":{"e":true}}', False),
        (b'{"version":2,"attributes":{"e":1}}', False),
        (b'{"lastModification":1,"version":1,"attributes":{"e":1}}', False),
        (b"[]", False),
        (b"{", False),
    ],
)
@pytest.mark.scenario("G47")
def test_the_gateways_own_stamps_are_noise(live: bytes, expected: bool) -> None:
    """DRF-2: only attributes.lastModification* may differ."""
    synced = b'{"version":1,"attributes":{"lastModificationSignature":"a","e":1}}'
    assert live_tree.differs_in_stamps_only(synced, live) is expected
