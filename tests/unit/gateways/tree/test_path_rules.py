"""Relative paths: one spelling each, and no way out."""

from __future__ import annotations

import pytest

from windlass.gateways.tree import path_rules


@pytest.mark.parametrize("path", ["/etc", "~/x", "..", "a/../b", "a/..", "a\\b", "a\nb", "a\0"])
def test_paths_that_lead_out_are_refused(path: str) -> None:
    """V6 holds for every path that a person may write."""
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
def test_every_spelling_has_one_text(path: str, expected: str) -> None:
    """MAP-2: doubled and trailing slashes and dots disappear."""
    assert path_rules.normalize(path) == expected


@pytest.mark.parametrize(
    ("path", "expected"), [("", True), (".", True), ("a/", True), ("a/.", True), ("a", False)]
)
def test_a_destination_may_name_a_directory(path: str, expected: bool) -> None:
    """A file mapped there lands in it under its own name."""
    assert path_rules.names_directory(path) is expected


def test_parents_are_listed_from_the_nearest() -> None:
    """The top itself is not listed."""
    assert list(path_rules.parents("a/b/c")) == ["a/b", "a"]
    assert list(path_rules.parents("a")) == []


def test_a_neighbour_with_the_same_beginning_is_not_below() -> None:
    """Only whole components count."""
    assert path_rules.is_below("a/b", "a")
    assert path_rules.is_below("a", "a")
    assert not path_rules.is_below("ab/c", "a")
