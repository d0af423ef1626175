"""A change is made again only where its record was lost; any other author fails at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast
from unittest.mock import Mock

import pytest

from tests.support.processes.operator import Operator
from tests.support.reverser.author_proof import UNRESOLVED, ExpectedAuthor, prove_authors
from tests.support.reverser.mirrored_namespace import Commit


def _commit(author: str, tier: str, reason: str = "") -> Commit:
    rows = [f"X-ConfigButler-Attribution: {tier}"]
    rows += [f"X-ConfigButler-Unresolved: {reason}"] if reason else []
    subject = f"[CREATE] v1/configmaps/one by user/{author}"
    return Commit("0", author, "", subject, "\n".join([subject, "", *rows]))


RIGHT = _commit("alice", "exact")
LOST = _commit(UNRESOLVED, "unresolved", "RecordsLost")


def _tries(*commits: Commit) -> Callable[[int], list[ExpectedAuthor]]:
    return lambda number: [(commits[number], "alice")]


def _operator() -> Operator:
    return cast("Operator", Mock(spec=Operator))


def test_lost_records_are_followed_by_another_try() -> None:
    """The commit of the first try with a record is returned."""
    assert prove_authors(_operator(), _tries(LOST, LOST, RIGHT)) == [RIGHT]


def test_tries_are_bounded() -> None:
    """Where records are always lost, the proof fails."""
    with pytest.raises(AssertionError, match="lost records"):
        prove_authors(_operator(), lambda _: [(LOST, "alice")])


@pytest.mark.parametrize(
    "wrong",
    [
        _commit("bob", "exact"),
        _commit("alice", "chain"),
        _commit(UNRESOLVED, "unresolved", "NoRecord"),
        _commit("bob", "exact", "RecordsLost"),
    ],
    ids=["another user", "another tier", "another reason", "a user without a record"],
)
def test_another_author_fails_at_once(wrong: Commit) -> None:
    """Neither another user nor another reason leads to another try."""
    with pytest.raises(AssertionError):
        prove_authors(_operator(), _tries(wrong, RIGHT))


def test_a_wrong_author_beside_a_lost_record_fails() -> None:
    """All commits of a try count, also where one of them lost its record."""
    rows = [(LOST, "alice"), (_commit("bob", "exact"), "alice")]
    with pytest.raises(AssertionError):
        prove_authors(_operator(), lambda _: rows)
