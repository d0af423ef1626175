"""Consecutive crashes: the condition at once, the event with the third."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from windlass.base.clock import SystemClock
from windlass.gateways.controller.status_reporting import CrashReporter, StatusRateLimit
from windlass.objects.names import GVR, Key
from windlass.runtime import controller, status
from windlass.runtime.events import ObjectRef
from windlass.runtime.outcome import Outcome, Verdict
from windlass.runtime.reporter import StatusSnapshot, condition_events

KEY, OTHER = Key("ns", "site"), Key("ns", "other")
CRASH = controller.failure_outcome(RuntimeError("canary"))
SUCCEEDED = Outcome(Verdict("True", "Synced", "m"))


class Reports:
    """Stands in for the reporter and for the recorder of events."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.events: list[tuple[str, str, str, str]] = []
        self.crashes = CrashReporter(self, self, self.raw)  # type: ignore[arg-type]

    def read_status(self, key: Key) -> StatusSnapshot | None:
        return None

    async def report(self, key: Key, observed: StatusSnapshot | None, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    async def record(
        self, ref: ObjectRef, event_type: str, reason: str, message: str, *, transition: str
    ) -> None:
        self.events.append((ref.name, event_type, reason, transition))
        assert "error id" in message
        assert "canary" not in message

    def raw(self, key: Key) -> bytes:
        metadata = {
            "name": key.name,
            "namespace": key.namespace,
            "uid": "u",
            "resourceVersion": "7",
        }
        sync: dict[str, Any] = {"apiVersion": "v", "kind": "IgnitionSync", "metadata": metadata}
        return orjson.dumps(sync)

    async def report_all(self, *outcomes: Outcome, key: Key = KEY) -> int:
        for outcome in outcomes:
            await self.crashes.report(key, None, outcome)
        return len(self.events)


@pytest.fixture
def reports() -> Reports:
    """A crash reporter without recorded crashes."""
    return Reports()


async def test_the_third_consecutive_crash_is_an_event(reports: Reports) -> None:
    """Once; other IgnitionSyncs and postponed reconciles change nothing."""
    await reports.report_all(CRASH, CRASH, key=OTHER)
    assert await reports.report_all(CRASH, Outcome.postponed(1.0), CRASH) == 0
    assert await reports.report_all(CRASH) == 1
    assert reports.events == [("site", "Warning", controller.INTERNAL, "7")]
    assert await reports.report_all(CRASH, CRASH) == 1


@pytest.mark.parametrize("completed", [SUCCEEDED, Outcome.gone()], ids=["well", "gone"])
async def test_a_completed_reconcile_resets_the_count(reports: Reports, completed: Outcome) -> None:
    """Two crashes, a completed reconcile, two crashes: no event."""
    assert await reports.report_all(CRASH, CRASH, completed, CRASH, CRASH) == 0
    assert await reports.report_all(CRASH) == 1
    assert await reports.report_all(completed, CRASH, CRASH, CRASH) == 2


async def test_the_condition_reports_the_first_crash(reports: Reports) -> None:
    """The status is written as usual, and by itself causes no event."""
    await reports.report_all(CRASH, SUCCEEDED)
    first, second = reports.outcomes
    assert (first.ready, first.backoff) == (CRASH.ready, True)
    new_status = status.build_status({}, first, generation=1, now=datetime.now(UTC))
    assert condition_events({}, new_status, first) == ()
    assert [event.reason for event in condition_events({}, new_status, CRASH)] == [
        controller.INTERNAL
    ]
    assert second is SUCCEEDED


class FrozenClock(SystemClock):
    """A clock that a test moves."""

    seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


class AcceptingApi:
    """Stands in for an API server that takes every write."""

    async def merge_patch(self, *_: object, **__: object) -> dict[str, Any]:
        return {}


async def test_two_status_writes_may_follow_each_other_and_the_third_waits() -> None:
    """The new commit, and that its gateway has it; other objects do not wait."""
    clock = FrozenClock()
    limit = StatusRateLimit(AcceptingApi(), clock, interval_seconds=2.0)  # type: ignore[arg-type]

    async def write() -> None:
        await limit.merge_patch(
            GVR("g", "v1", "syncs"), KEY.name, {}, KEY.namespace, field_manager="test"
        )

    for _ in range(2):
        assert limit.wait_seconds(KEY) == 0.0
        await write()
    assert limit.wait_seconds(KEY) > 0.0
    assert limit.wait_seconds(OTHER) == 0.0
    clock.seconds += limit.wait_seconds(KEY)
    assert limit.wait_seconds(KEY) == 0.0
