"""Constraints: the CEL text and the function agree."""

from __future__ import annotations

from windlass.api.schema import constraint


def test_matching_and_avoiding_are_opposites() -> None:
    """One regular expression makes both a requirement and a ban."""
    wanted, banned = constraint.must_match("^a", "m"), constraint.must_not_match("^a", "m")
    assert wanted.cel == "self.matches('^a')"
    assert banned.cel == "!self.matches('^a')"
    assert wanted.holds("ab")
    assert not banned.holds("ab")
    assert banned.holds("b")


def test_a_field_is_named_on_its_parent() -> None:
    """A constraint on a field reads it from the value and names it as the manifest does."""

    class Parent:
        repo_url = "x"

    banned = constraint.must_not_match("x", "m", field="repo_url")
    assert banned.cel == "!self.repoUrl.matches('x')"
    assert not banned.holds(Parent())


def test_the_end_is_the_very_end() -> None:
    """`$` does not match before a closing line break, as in RE2."""
    assert not constraint.must_match("a$", "m").holds("a\n")


def test_literals_are_escaped() -> None:
    """Quotes, backslashes and characters beyond ASCII survive in a CEL literal."""
    assert constraint.cel_string("a'\\\u2028") == "'a\\'\\\\\\u2028'"


def test_only_given_options_are_declared() -> None:
    """An empty declaration has no keys."""
    assert constraint.schema_extra() == {}
    extra = constraint.schema_extra(list_type="map", keys=("name",))
    assert extra == {"list_type": "map", "list_keys": ("name",)}
