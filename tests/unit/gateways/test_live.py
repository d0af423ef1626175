"""Where to look on a gateway's disk."""

from __future__ import annotations

from windlass.gateways.decide.live import lookups
from windlass.gateways.decide.manifest import Manifest, Root


def test_directories_are_walked_once_and_files_only_looked_at() -> None:
    """Nested roots are one walk; the way to a root is looked at because it may be a link."""
    old = Manifest("c", roots=(Root("projects/p", "dir"), Root("old/deep", "dir")))
    found = lookups(
        [Root("projects", "dir"), Root("projects/q/f", "file"), Root("a/b.json", "file")], old
    )
    assert found.walk == ("old/deep", "projects")
    assert found.look == ("a", "a/b.json", "old")
