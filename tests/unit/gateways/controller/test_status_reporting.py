"""Crashes in a row: the condition at once, the event with the third."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from windlass.gateways.controller.status_reporting import CrashReporter
from windlass.objects.names import Key
from windlass.runtime import controller, status
from windlass.runtime.events import ObjectRef
from windlass.runtime.outcome import Outcome, Verdict
from windlass.runtime.reporter import StatusSnapshot, condition_events

KEY, OTHER = Key("ns", "site"), Key("ns", "other")
CRASH = controller.failure_outcome(RuntimeError("canary"))
WELL = Outcome(Verdict("True", "Synced", "m"))


class Reports:
    """Stands in for the reporter and for the recorder of events."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.events: list[tuple[str, str, str, str]] = []
        self.crashes = CrashReporter(self, self, self.raw)  # type: ignore[arg-type]

    def read_status(self, key: Key) -> StatusSnapshot | None:
        return None

    async def report(self, key: Key, seen: StatusSnapshot | None, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    async def record(
        self, ref: ObjectRef, weight: str, reason: str, message: str, *, transition: str
    ) -> None:
        self.events.append((ref.name, weight, reason, transition))
        assert "error id" in message
        assert "canary" not in message

    def raw(self, key: Key) -> bytes:
        meta = {"name": key.name, "namespace": key.namespace, "uid": "u", "resourceVersion": "7"}
        found: dict[str, Any] = {"apiVersion": "v", "kind": "IgnitionSync", "metadata": meta}
        return orjson.dumps(found)

    async def passed(self, *outcomes: Outcome, key: Key = KEY) -> int:
        for outcome in outcomes:
            await self.crashes.report(key, None, outcome)
        return len(self.events)


@pytest.fixture
def reports() -> Reports:
    """A count that has not begun."""
    return Reports()


async def test_the_third_crash_in_a_row_is_an_event(reports: Reports) -> None:
    """Once; other IgnitionSyncs and passes that were put off change nothing."""
    await reports.passed(CRASH, CRASH, key=OTHER)
    assert await reports.passed(CRASH, Outcome.postponed(1.0), CRASH) == 0
    assert await reports.passed(CRASH) == 1
    assert reports.events == [("site", "Warning", controller.INTERNAL, "7")]
    assert await reports.passed(CRASH, CRASH) == 1


@pytest.mark.parametrize("end", [WELL, Outcome.gone()], ids=["well", "gone"])
async def test_a_pass_that_ends_begins_the_count_anew(reports: Reports, end: Outcome) -> None:
    """Two crashes, an end, two crashes: none of them calls for a person."""
    assert await reports.passed(CRASH, CRASH, end, CRASH, CRASH) == 0
    assert await reports.passed(CRASH) == 1
    assert await reports.passed(end, CRASH, CRASH, CRASH) == 2


async def test_the_condition_tells_of_the_first(reports: Reports) -> None:
    """The status is written as always, and by itself it makes no event."""
    await reports.passed(CRASH, WELL)
    first, second = reports.outcomes
    assert (first.ready, first.backoff) == (CRASH.ready, True)
    new = status.build_status({}, first, generation=1, now=datetime.now(UTC))
    assert condition_events({}, new, first) == ()
    assert [notice.reason for notice in condition_events({}, new, CRASH)] == [controller.INTERNAL]
    assert second is WELL
