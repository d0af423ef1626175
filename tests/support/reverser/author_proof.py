"""Proof of the authors of changes, which are made again where their records were lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tests.support.processes.operator import Operator
from tests.support.reverser.mirrored_namespace import Commit, MirroredNamespace

UNRESOLVED = "(unresolved)"

ExpectedAuthor: TypeAlias = tuple[Commit, str]
"""A commit and who must be its author; `UNRESOLVED` where nobody may be named."""

_TRIES = 6


def prove_author(
    mirrored: MirroredNamespace,
    operator: Operator,
    user: str,
    change: Callable[[int], str],
    *,
    tier: str = "exact",
) -> Commit:
    """The commit of one change by `user`.

    `change` makes it, is given the number of the try, and returns its operation and object, as
    `MirroredNamespace.await_change` takes them.
    """

    def make_change(number: int) -> list[ExpectedAuthor]:
        earlier = mirrored.commits()
        return [(mirrored.await_change(change(number), earlier=earlier), user)]

    (commit,) = prove_authors(operator, make_change, tier=tier)
    return commit


def prove_authors(
    operator: Operator,
    make_changes: Callable[[int], Sequence[ExpectedAuthor]],
    *,
    tier: str = "exact",
) -> list[Commit]:
    """The commits of the first try that lost no record, each with its expected author.

    A webhook process that the kernel does not schedule for the better part of a second may have
    missed a request, so the mirror names nobody and says RecordsLost. That is right, and happens
    on a busy machine, but proves nothing about authors; so the changes are made again, a few
    times at most. Any other author, or none for another reason, fails in whichever try.
    """
    for number in range(_TRIES):
        operator.await_provable()
        expected = make_changes(number)
        recorded = [(commit, user) for commit, user in expected if not has_lost_records(commit)]
        for commit, user in recorded:
            _assert_author(commit, user, tier)
        if len(recorded) == len(expected):
            return [commit for commit, _ in recorded]
    raise AssertionError(f"each of {_TRIES} tries lost records")


def has_lost_records(commit: Commit) -> bool:
    """Whether a commit names nobody because records may be missing."""
    lost = "X-ConfigButler-Unresolved: RecordsLost" in commit.body.splitlines()
    assert not lost or commit.author == UNRESOLVED, commit
    return lost


def _assert_author(commit: Commit, user: str, tier: str) -> None:
    assert commit.subject.endswith(f" by user/{user}"), commit
    expected_tier = "unresolved" if user == UNRESOLVED else tier
    assert (commit.author, commit.trailer("Attribution")) == (user, expected_tier), commit
