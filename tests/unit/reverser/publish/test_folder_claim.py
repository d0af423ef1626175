"""Who holds a folder, and when it may be taken over."""

from __future__ import annotations

import pytest

from windlass.reverser.publish import folder_claim
from windlass.reverser.publish.folder_claim import (
    ClaimTakeover,
    FolderClaim,
    ForeignClaim,
    OwnClaim,
    Unclaimed,
)

OURS = FolderClaim("uid-1", "team/prod")


def test_bytes_of_the_claim() -> None:
    """Five lines, in this order; reading gives the claim back."""
    content = folder_claim.render_claim(OURS)
    assert content == (
        b"claim: v1\ncluster: uid-1\ndestination: team/prod\nemitter: e1\nlayout: seed\n"
    )
    assert folder_claim.parse_claim(content) == OURS


def test_layout_may_hold_a_template() -> None:
    """The text of a template, colons included, survives."""
    ours = FolderClaim("u", "a/b", "e1", "{group}/x: y/{name}.yaml")
    assert folder_claim.parse_claim(folder_claim.render_claim(ours)) == ours


def test_line_ends_of_a_checkout_do_not_matter() -> None:
    """A claim that went through a CRLF checkout is still ours."""
    assert folder_claim.parse_claim(folder_claim.render_claim(OURS).replace(b"\n", b"\r\n")) == OURS


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"claim: v2\ncluster: u\ndestination: a/b\nemitter: e1\nlayout: seed\n",
        b"claim: v1\ncluster: u\ndestination: a/b\nemitter: e1\n",
        b"claim: v1\ncluster: \ndestination: a/b\nemitter: e1\nlayout: seed\n",
        b"claim: v1\ncluster: u\ncluster: w\ndestination: a/b\nemitter: e1\nlayout: seed\n",
        b"claim: v1\ncluster: u\ndestination: a/b\nemitter: e1\nlayout: seed\nmore: x\n",
        b"\xff",
        b"x" * 5000,
    ],
)
def test_what_is_no_claim_is_refused(content: bytes) -> None:
    """Unknown versions, missing, doubled or unknown lines are never guessed at."""
    with pytest.raises(folder_claim.ClaimUnreadable):
        folder_claim.parse_claim(content)


@pytest.mark.parametrize("text", ["", "a\nb", "a\u2028b"])
def test_a_claim_of_several_lines_is_refused(text: str) -> None:
    """Nothing may smuggle a line into the file."""
    with pytest.raises(ValueError, match="one line"):
        folder_claim.render_claim(FolderClaim(text, "a/b"))


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (None, Unclaimed()),
        (OURS, OwnClaim(outdated=False)),
        (FolderClaim("uid-1", "team/prod", "e0"), OwnClaim(outdated=True)),
        (FolderClaim("uid-1", "team/prod", "e1", "{name}.yaml"), OwnClaim(outdated=True)),
        (FolderClaim("uid-1", "team/gone"), ClaimTakeover(FolderClaim("uid-1", "team/gone"))),
    ],
)
def test_verdicts_without_annotation(
    found: FolderClaim | None, verdict: folder_claim.ClaimVerdict
) -> None:
    """A free folder, our own, and that of a destination which is no more."""
    existing = frozenset(["team/prod", "team/other"])
    assert folder_claim.judge_claim(found, OURS, existing_destinations=existing) == verdict


@pytest.mark.parametrize(
    "found", [FolderClaim("uid-1", "team/other"), FolderClaim("uid-2", "team/prod")]
)
def test_folder_of_another_is_foreign_until_named(found: FolderClaim) -> None:
    """The message names the holder and the annotation; only exactly that takes it over."""
    existing = frozenset(["team/prod", "team/other"])
    verdict = folder_claim.judge_claim(found, OURS, existing_destinations=existing)
    assert isinstance(verdict, ForeignClaim)
    assert found.holder in verdict.message
    wrong = folder_claim.judge_claim(
        found, OURS, existing_destinations=existing, takeover="team/x@uid-2"
    )
    assert isinstance(wrong, ForeignClaim)
    named = folder_claim.judge_claim(
        found, OURS, existing_destinations=existing, takeover=found.holder
    )
    assert named == ClaimTakeover(found)


def test_a_folder_of_another_namespace_cannot_be_taken_over() -> None:
    """An annotation on one's own destination does not beat the claim of another tenant."""
    found = FolderClaim("uid-1", "other/prod")
    existing = frozenset(["team/prod", "other/prod"])
    verdict = folder_claim.judge_claim(
        found, OURS, existing_destinations=existing, takeover=found.holder
    )
    assert isinstance(verdict, ForeignClaim)
    assert "takeover" not in verdict.message
    assert "have that GitDestination deleted" in verdict.message
    gone = folder_claim.judge_claim(
        found, OURS, existing_destinations=frozenset(["team/prod"]), takeover=found.holder
    )
    assert gone == ClaimTakeover(found)


def test_destinations_of_another_cluster_are_not_ours_to_miss() -> None:
    """That we do not know a destination of another cluster proves nothing."""
    found = FolderClaim("uid-2", "team/gone")
    assert isinstance(
        folder_claim.judge_claim(found, OURS, existing_destinations=frozenset()), ForeignClaim
    )
