"""Verdicts that must outlive the records behind them."""

from __future__ import annotations

from datetime import UTC, datetime

from windlass.objects.names import GVR, Identity
from windlass.reverser import authorship
from windlass.reverser.arrival import Arrival
from windlass.reverser.authorship import SETTLE_SECONDS
from windlass.reverser.decide.attribution import Observation, Verdict
from windlass.reverser.decide.author import Actor
from windlass.reverser.folder import Gathered

ALICE = Verdict("exact", Actor("alice"))
NOBODY = Verdict("unresolved", None, "NoRecord")


def _arrival(uid: str, received: float | None) -> Arrival:
    identity = Identity(GVR("", "v1", "configmaps"), "ns", uid)
    observation = None
    if received is not None:
        observation = Observation(uid, "UPDATE", "1", identity, b"", received)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Arrival(identity, "ConfigMap", uid, "b", b"", frozenset(), observation, now)


def test_an_author_is_settled_before_its_records_expire() -> None:
    """ATT-7: a window longer than records live keeps the authors that were proven in time."""
    waiting = Gathered([_arrival("sync", None), _arrival("one", 0.0), _arrival("two", 3.0)], live=2)
    assert authorship.settles_at(waiting) == SETTLE_SECONDS
    authorship.settle(waiting, lambda _: ALICE, SETTLE_SECONDS)
    assert authorship.settles_at(waiting) == 3.0 + SETTLE_SECONDS
    verdicts = authorship.judged(waiting, lambda _: NOBODY)
    assert {one.uid: verdict for one, verdict in verdicts.items()} == {"one": ALICE, "two": NOBODY}


def test_an_author_is_not_settled_while_another_record_may_come() -> None:
    """A verdict on arrival could be contradicted; the one at the close counts."""
    waiting = Gathered([_arrival("one", 0.0)], live=1)
    authorship.settle(waiting, lambda _: ALICE, SETTLE_SECONDS - 0.1)
    assert waiting.verdicts == {}
    ambiguous = Verdict("unresolved", None, "Ambiguous")
    assert list(authorship.judged(waiting, lambda _: ambiguous).values()) == [ambiguous]


def test_what_nobody_was_seen_to_do_has_nothing_to_settle() -> None:
    """A snapshot's changes never wake the worker for their authors."""
    waiting = Gathered([_arrival("one", None)])
    assert authorship.settles_at(waiting) == float("inf")
    authorship.settle(waiting, lambda _: ALICE, 100.0)
    assert waiting.verdicts == {}
