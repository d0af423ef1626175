"""Verdicts that must outlive the records behind them."""

from __future__ import annotations

from datetime import UTC, datetime

from windlass.objects.names import GVR, Identity
from windlass.reverser.attribution.author import Actor
from windlass.reverser.attribution.record_join import AuthorVerdict, Observation
from windlass.reverser.publish import publisher
from windlass.reverser.publish.file_update import FileUpdate
from windlass.reverser.publish.folder import PendingWindow
from windlass.reverser.publish.publisher import SETTLE_SECONDS

ALICE = AuthorVerdict("exact", Actor("alice"))
UNRESOLVED = AuthorVerdict("unresolved", None, "NoRecord")


def _update(uid: str, received: float | None) -> FileUpdate:
    identity = Identity(GVR("", "v1", "configmaps"), "ns", uid)
    observation = None
    if received is not None:
        observation = Observation(uid, "UPDATE", "1", identity, b"", received)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return FileUpdate(identity, "ConfigMap", uid, "b", b"", frozenset(), observation, now)


def test_an_author_is_settled_before_its_records_expire() -> None:
    """ATT-7: a window longer than the TTL of records keeps the authors that were proven in time."""
    window = PendingWindow(
        [_update("sync", None), _update("one", 0.0), _update("two", 3.0)], observed_count=2
    )
    assert publisher.next_settle_time(window) == SETTLE_SECONDS
    publisher.settle_window(window, lambda _: ALICE, SETTLE_SECONDS)
    assert publisher.next_settle_time(window) == 3.0 + SETTLE_SECONDS
    verdicts = publisher.judge_window(window, lambda _: UNRESOLVED)
    assert {observation.uid: verdict for observation, verdict in verdicts.items()} == {
        "one": ALICE,
        "two": UNRESOLVED,
    }


def test_an_author_is_not_settled_while_another_record_may_come() -> None:
    """An early verdict could be contradicted; the one at the close counts."""
    window = PendingWindow([_update("one", 0.0)], observed_count=1)
    publisher.settle_window(window, lambda _: ALICE, SETTLE_SECONDS - 0.1)
    assert window.verdicts == {}
    ambiguous = AuthorVerdict("unresolved", None, "Ambiguous")
    assert list(publisher.judge_window(window, lambda _: ambiguous).values()) == [ambiguous]


def test_updates_of_a_snapshot_have_no_verdict_to_settle() -> None:
    """A snapshot's changes never wake the worker for their authors."""
    window = PendingWindow([_update("one", None)])
    assert publisher.next_settle_time(window) == float("inf")
    publisher.settle_window(window, lambda _: ALICE, 100.0)
    assert window.verdicts == {}
