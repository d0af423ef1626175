"""Authors from admission users."""

from __future__ import annotations

import pytest

from windlass.reverser.attribution import author
from windlass.reverser.attribution.author import UNRESOLVED, Actor, Author


@pytest.mark.parametrize(
    ("actor", "expected"),
    [
        (Actor("alice"), Author("alice", "alice@windlass.invalid")),
        (Actor("alice", "a@example.org"), Author("alice", "a@example.org")),
        (
            Actor("alice", "a@example.org", "Alice Ä."),
            Author("Alice Ä", "a@example.org"),
        ),
        (
            Actor("system:serviceaccount:ns:bot"),
            Author("system:serviceaccount:ns:bot", "system-serviceaccount-ns-bot@windlass.invalid"),
        ),
        (Actor("Bob.Jones@x.org"), Author("Bob.Jones@x.org", "bob-jones-x-org@windlass.invalid")),
        (Actor("alice", "not an address"), Author("alice", "alice@windlass.invalid")),
        (Actor("alice", "a@b>\nx: y"), Author("alice", "alice@windlass.invalid")),
        (Actor("日本"), Author("日本", "user@windlass.invalid")),
        (Actor(""), UNRESOLVED),
        (Actor("\n<>"), UNRESOLVED),
        (Actor(" .,:;\"'"), UNRESOLVED),
        (Actor("(unresolved)", "a@b.c"), UNRESOLVED),
        (Actor("unresolved"), Author("unresolved", "user-unresolved@windlass.invalid")),
        (Actor("eve", "unresolved@windlass.invalid"), Author("eve", "eve@windlass.invalid")),
        (Actor("eve", "", "(unresolved)"), Author("eve", "eve@windlass.invalid")),
        (None, UNRESOLVED),
    ],
)
def test_author_of_an_actor(actor: Actor | None, expected: Author) -> None:
    """User name, claims where they are well-formed, else an address that leads nowhere."""
    assert author.commit_author(actor) == expected


@pytest.mark.scenario("A66")
def test_hostile_name_is_one_clean_line() -> None:
    """Brackets, line ends and trailers in a name do not leave it."""
    hostile = Actor("x <a@b>\nSigned-off-by: y\u202e")
    assert author.commit_author(hostile).name == "x a@bSigned-off-by: y"
    assert author.display_user(hostile) == "x a@bSigned-off-by: y"


def test_long_names_are_cut_at_a_whole_character() -> None:
    """128 bytes, never half a character."""
    name = author.commit_author(Actor("é" * 5000)).name
    assert name == "é" * 64
