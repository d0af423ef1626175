"""Which of two contending destinations keeps a folder."""

from __future__ import annotations

import itertools

import pytest

from windlass.objects.names import Key
from windlass.reverser.publish import folder_claim
from windlass.reverser.publish.folder_claim import ClaimStrength, FolderContender


def _contender(
    name: str,
    folder: str = "a",
    created: str = "2026-01-01",
    title: ClaimStrength = ClaimStrength.NONE,
) -> FolderContender:
    return FolderContender(Key("team", name), folder, created, title)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("a/b", "a/b", True), ("a/b", "a/b/c", True), ("a", "a/b", True), ("a/b", "a/bc", False)],
)
def test_equal_and_nested_folders_overlap(one: str, other: str, expected: bool) -> None:
    """GIT-2: siblings are fine, also when one name begins with the other."""
    assert folder_claim.folders_overlap(one, other) is expected
    assert folder_claim.folders_overlap(other, one) is expected


def test_a_claim_wins_over_age() -> None:
    """GIT-2: the one named in Git keeps the folder, so a restart changes nothing."""
    old, young = (
        _contender("old"),
        _contender("young", created="2026-02-01", title=ClaimStrength.CLAIM),
    )
    assert old.loses_to(young)
    assert not young.loses_to(old)


def test_age_decides_between_equals_then_the_name() -> None:
    """GIT-2: creation first, then namespace and name."""
    assert _contender("a", created="2026-02-01").loses_to(_contender("z"))
    assert _contender("b").loses_to(_contender("a"))


def test_a_takeover_annotation_wins() -> None:
    """SNP-11: the annotation that names the holder beats its claim."""
    holder, taker = (
        _contender("a", title=ClaimStrength.CLAIM),
        _contender("b", title=ClaimStrength.TAKEOVER),
    )
    assert holder.loses_to(taker)


def test_a_takeover_annotation_beats_no_claim_of_another_namespace() -> None:
    """SNP-11: between namespaces only a claim in Git decides."""
    taker = FolderContender(Key("evil", "a"), "a", "2020-01-01", ClaimStrength.TAKEOVER)
    holder = _contender("mine", title=ClaimStrength.CLAIM)
    assert taker.loses_to(holder)
    assert not holder.loses_to(taker)


def test_exactly_one_of_two_contenders_keeps_the_folder() -> None:
    """Two destinations never both yield, and never both keep."""
    contenders = [
        _contender(name, created=created, title=title)
        for name, created, title in itertools.product(
            "ab", ("2026-01-01", "2026-02-01"), ClaimStrength
        )
    ]
    for one, other in itertools.permutations(contenders, 2):
        if one.destination != other.destination:
            assert one.loses_to(other) is not other.loses_to(one)


def test_between_namespaces_only_a_claim_decides() -> None:
    """A destination that never pushed does not block a folder for another namespace."""
    squatter = FolderContender(Key("evil", "a"), "a", "2020-01-01", ClaimStrength.NONE)
    mine = _contender("mine")
    assert not mine.loses_to(squatter)
    assert not squatter.loses_to(mine)
    claimed = _contender("mine", title=ClaimStrength.CLAIM)
    assert squatter.loses_to(claimed)
    assert not claimed.loses_to(squatter)


def test_a_holder_elsewhere_is_not_named() -> None:
    """GIT-2: a holder in another namespace is not revealed."""
    mine = _contender("mine", folder="a/b")
    near = folder_claim.overlap_message(mine, _contender("holder", folder="a"))
    assert "folder a of GitDestination team/holder" in near
    far = folder_claim.overlap_message(
        mine, FolderContender(Key("secret", "holder"), "a", "", ClaimStrength.CLAIM)
    )
    assert "secret" not in far
    assert "a/b" in far
