"""Where to look on a gateway's disk."""

from __future__ import annotations

from windlass.gateways.tree.live_tree import survey_scope
from windlass.gateways.tree.manifest import ManagedRoot, Manifest


def test_directories_are_walked_once_and_files_only_looked_at() -> None:
    """Nested roots are one walk; the way to a root is looked at because it may be a link."""
    old = Manifest("c", roots=(ManagedRoot("projects/p", "dir"), ManagedRoot("old/deep", "dir")))
    found = survey_scope(
        [
            ManagedRoot("projects", "dir"),
            ManagedRoot("projects/q/f", "file"),
            ManagedRoot("a/b.json", "file"),
        ],
        old,
    )
    assert found.walk == ("old/deep", "projects")
    assert found.stat_only == ("a", "a/b.json", "old")
