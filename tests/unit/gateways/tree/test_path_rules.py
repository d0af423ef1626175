"""Relative paths: one spelling each, and none leads outside."""

from __future__ import annotations

import pytest

from windlass.gateways.tree import path_rules


@pytest.mark.parametrize("path", ["/etc", "~/x", "..", "a/../b", "a/..", "a\\b", "a\nb", "a\0"])
def test_paths_that_lead_outside_are_refused(path: str) -> None:
    """V6 applies to every path that a user may write."""
    with pytest.raises(ValueError, match="must"):
        path_rules.normalize(path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("projects/", "projects"),
        ("./projects/", "projects"),
        ("a//b/./c", "a/b/c"),
        (".", ""),
        ("", ""),
        ("..a/b..", "..a/b.."),
    ],
)
def test_every_spelling_is_normalized(path: str, expected: str) -> None:
    """MAP-2: double and trailing slashes and dots are removed."""
    assert path_rules.normalize(path) == expected


@pytest.mark.parametrize(
    ("path", "expected"), [("", True), (".", True), ("a/", True), ("a/.", True), ("a", False)]
)
def test_a_destination_may_name_a_directory(path: str, expected: bool) -> None:
    """A file mapped there keeps its own name."""
    assert path_rules.names_directory(path) is expected


def test_parents_are_listed_nearest_first() -> None:
    """The root itself is not listed."""
    assert list(path_rules.parents("a/b/c")) == ["a/b", "a"]
    assert list(path_rules.parents("a")) == []


def test_a_path_with_the_same_prefix_is_not_below() -> None:
    """Only whole components are compared."""
    assert path_rules.is_below("a/b", "a")
    assert path_rules.is_below("a", "a")
    assert not path_rules.is_below("ab/c", "a")
