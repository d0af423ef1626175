"""Which commit a ref text resolves to."""

from __future__ import annotations

import pytest

from windlass.git.format import refs
from windlass.git.format.refs import (
    BRANCHES,
    TAGS,
    RefUnknown,
    ResolvedRef,
    covers_patterns,
    fold_patterns,
)

A, B, C, D = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)
PULL = "refs/pull/7/head"
PRINTED = f"""\
ref: refs/heads/main\tHEAD
{A}\tHEAD
{A}\trefs/heads/main
{B}\trefs/heads/both
{B}\trefs/heads/abcdef1
{B}\trefs/foreign/refs/pull/7/head
{C}\trefs/pull/7/head
{A}\trefs/remotes/origin/HEAD
{C}\trefs/tags/both
{C}\trefs/tags/light
{D}\trefs/tags/nested
{C}\trefs/tags/nested^{{}}
{D}\trefs/tags/team/v1
{C}\trefs/tags/team/v1^{{}}
""".encode()


def _resolve(wanted: str) -> ResolvedRef:
    return refs.resolve_ref(refs.parse_listing(PRINTED, refs.ref_patterns(wanted)), wanted)


@pytest.mark.scenario("G4")
@pytest.mark.parametrize("wanted", ["light", "nested", "team/v1", "refs/tags/nested"])
def test_every_kind_of_tag_leads_to_its_commit(wanted: str) -> None:
    """Lightweight, annotated and nested tags of one commit are that commit."""
    assert (_resolve(wanted).commit, _resolve(wanted).kind) == (C, "tag")


@pytest.mark.scenario("G5")
def test_a_tag_wins_over_a_branch_with_a_note() -> None:
    """The full name selects the branch, without a note."""
    result = _resolve("both")
    assert (result.commit, result.ref, result.kind) == (C, "refs/tags/both", "tag")
    assert result.ambiguous == (("refs/tags/both", C), ("refs/heads/both", B))
    assert _resolve("refs/heads/both") == ResolvedRef(B, "refs/heads/both", "branch")


def test_branches_other_refs_and_ids() -> None:
    """Other refs match by their full name; ids are taken as they are, in lower case."""
    assert _resolve("main") == ResolvedRef(A, "refs/heads/main", "branch")
    assert _resolve(PULL) == ResolvedRef(C, PULL, "ref")
    assert _resolve("E" * 40) == ResolvedRef("e" * 40, "e" * 40, "sha")
    assert _resolve("f" * 64).kind == "sha"
    assert _resolve("abcdef1").commit == B


@pytest.mark.scenario("G6")
@pytest.mark.parametrize("wanted", ["abcdef2", "ABCDEF2", "a" * 39])
def test_a_short_id_gets_a_hint(wanted: str) -> None:
    """Seven to 39 digits that are not a ref."""
    with pytest.raises(RefUnknown, match="use the full SHA"):
        _resolve(wanted)


@pytest.mark.parametrize("wanted", ["ghost", "abcde2", "refs/pull/8/head", "refs/heads/x", "HEAD"])
def test_a_missing_ref_is_unknown(wanted: str) -> None:
    """The message names it, without a hint about ids."""
    with pytest.raises(RefUnknown, match=wanted) as caught:
        _resolve(wanted)
    assert "SHA" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "-x", "--upload-pack=x", "a..b", "a b", "a\nb", "a~1", "a^", "a:b", "a?", "a*", "a[",
     "a\\b", "@", "a@{1}", "a//b", "a/", "a.", "a.lock", "a\x7f", "a\u2028b", "x" * 256],
)  # fmt: skip
def test_texts_that_are_no_ref(text: str) -> None:
    """Rule V2, for every ref text before it is used."""
    with pytest.raises(refs.RefRefused):
        refs.check_ref(text)
    with pytest.raises(RefUnknown):
        _resolve(text)


@pytest.mark.parametrize(
    "text", ["main", "HEAD", "a/b.c", "v1.2-rc", PULL, "ünïcode", "x" * 255, A]
)
def test_texts_that_may_be_refs(text: str) -> None:
    """What git accepts as a name or an id."""
    refs.check_ref(text)


def test_only_the_needed_refs_are_requested() -> None:
    """By full names; an id needs no listing, and an invalid ref is never requested."""
    assert refs.ref_patterns(A) == frozenset()
    assert refs.ref_patterns("x") == {"refs/heads/x", "refs/tags/x"}
    assert refs.ref_patterns("refs/tags/x") == {"refs/tags/x"}
    assert refs.ref_patterns(PULL) == {PULL}
    for text in ("a*", "--upload-pack=x", "refs/heads/[a]"):
        with pytest.raises(RefUnknown):
            refs.ref_patterns(text)
    assert refs.ref_patterns_of([A, "x", "a*", PULL]) == {"refs/heads/x", "refs/tags/x", PULL}


def test_names_match_whole() -> None:
    """Git prints refs that end like a name; those do not match."""
    requested = frozenset({"refs/heads/main", PULL})
    result = refs.parse_listing(PRINTED, requested)
    assert (result.refs, result.tags, result.others) == ({"refs/heads/main": A}, {}, {PULL: C})
    assert result.default_branch == "main"


def test_many_names_become_all_of_their_kind() -> None:
    """Other refs stay names; a pattern replaces the names it covers."""
    names = frozenset({"refs/heads/a", "refs/tags/a", PULL})
    assert fold_patterns(names, 3) == names
    assert fold_patterns(names, 2) == {BRANCHES, TAGS, PULL}
    assert fold_patterns(names | {BRANCHES}, 9) == {BRANCHES, "refs/tags/a", PULL}
    assert covers_patterns(fold_patterns(names, 2), names)
    assert covers_patterns(frozenset({BRANCHES}), frozenset({"refs/heads/x"}))
    assert not covers_patterns(frozenset({BRANCHES}), names)
    assert not covers_patterns(names, frozenset({BRANCHES}))


def test_a_listing_without_names_has_the_branches() -> None:
    """Unusual names do not break lines."""
    result = refs.parse_listing(PRINTED)
    assert sorted(result.refs) == ["refs/heads/abcdef1", "refs/heads/both", "refs/heads/main"]
    assert not result.tags
    assert not result.others
    odd = f"{A}\trefs/heads/x\u2028y\x85z\n".encode()
    assert refs.parse_listing(odd).tip("x\u2028y\x85z") == A
    assert refs.parse_listing(b"").refs == {}
    with pytest.raises(ValueError, match="malformed"):
        refs.parse_listing(b"what\n")
