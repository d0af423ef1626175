"""Which paths of a gateway's disk are surveyed."""

from __future__ import annotations

from windlass.gateways.tree.live_tree import survey_scope
from windlass.gateways.tree.manifest import ManagedRoot, Manifest


def test_directories_are_walked_once_and_files_only_statted() -> None:
    """Nested roots are one walk; parents of a root are checked because they may be links."""
    manifest = Manifest(
        "c", roots=(ManagedRoot("projects/p", "dir"), ManagedRoot("old/deep", "dir"))
    )
    scope = survey_scope(
        [
            ManagedRoot("projects", "dir"),
            ManagedRoot("projects/q/f", "file"),
            ManagedRoot("a/b.json", "file"),
        ],
        manifest,
    )
    assert scope.walk == ("old/deep", "projects")
    assert scope.stat_only == ("a", "a/b.json", "old")
