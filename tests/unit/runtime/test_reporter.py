"""Writing outcomes to the status, and events."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.runtime.fakes import FakeApi, ManualClock, thing
from windlass.base.errors import Retryable
from windlass.kube.errors import Conflict, Unavailable
from windlass.objects.names import GVR, Key
from windlass.runtime.events import EventRecorder
from windlass.runtime.outcome import Outcome, OutcomeEvent, Verdict
from windlass.runtime.reporter import Reporter
from windlass.runtime.status import ANNOTATIONS

THINGS = GVR("example.dev", "v1", "things")
KEY = Key("ns", "a")
FINE = Outcome(Verdict("True", "Ready", "fine"))
STUCK = Outcome(Verdict("False", "AccessDenied", "ask"), stalled=True)


class ReporterHarness:
    """An API server, a cache that updates on request, and a reporter."""

    def __init__(self, **fields: Any) -> None:
        self.api = FakeApi()
        self.cache: dict[Key, bytes] = {}
        self.clock = ManualClock()
        self.reporter = Reporter(
            self.api,
            THINGS,
            self.cache.get,
            field_manager="windlass-test",
            recorder=EventRecorder(self.api, "windlass.dev/test", clock=self.clock),
            clock=self.clock,
        )
        self.write(thing("a", **fields))

    def write(self, obj: dict[str, Any], *, cached: bool = True) -> None:
        self.api.put(THINGS, obj)
        if cached:
            self.catch_up()

    def catch_up(self) -> None:
        obj = self.live
        self.cache[KEY] = json.dumps(obj).encode()

    @property
    def live(self) -> dict[str, Any]:
        return self.api.objects["things", "ns", "a"]

    @property
    def events(self) -> list[str]:
        return [
            obj["reason"]
            for (resource, *_), obj in self.api.objects.items()
            if resource == "events"
        ]

    async def report(self, outcome: Outcome) -> None:
        seen = self.reporter.read_status(KEY)
        self.clock.seconds += 10
        await self.reporter.report(KEY, seen, outcome)


async def test_one_write_per_reconcile_and_none_for_the_same() -> None:
    """The first reconcile writes once, the second nothing, also with a cache that lags."""
    harness = ReporterHarness()
    await harness.report(FINE)
    await harness.report(FINE)
    harness.catch_up()
    await harness.report(FINE)
    assert [verb for verb, _ in harness.api.calls] == ["patch", "create"]
    assert harness.live["status"]["observedGeneration"] == 1


async def test_the_write_is_guarded_by_uid_and_version() -> None:
    """A report is written over the version that it was computed from."""
    harness = ReporterHarness()
    await harness.report(FINE)
    assert harness.api.patches[0]["metadata"] == {"uid": "uid-a", "resourceVersion": "1"}


async def test_a_lagging_cache_does_not_bring_back_an_old_status() -> None:
    """Our own write counts before the cache has it: returning to the old state is a real write."""
    harness = ReporterHarness()
    await harness.report(FINE)
    harness.catch_up()
    await harness.report(STUCK)
    await harness.report(FINE)
    assert [row["type"] for row in harness.live["status"]["conditions"]] == ["Ready"]
    assert harness.live["status"]["conditions"][0]["status"] == "True"
    assert not [verb for verb, _ in harness.api.calls if verb == "get"]


async def test_a_postponed_reconcile_keeps_our_last_write() -> None:
    """It did not begin, so the status that the cache does not show yet still counts."""
    harness = ReporterHarness()
    await harness.report(FINE)
    await harness.report(Outcome.postponed(1.0))
    assert harness.reporter.newest(KEY) == harness.live
    await harness.report(FINE)
    assert [verb for verb, _ in harness.api.calls] == ["patch", "create"]


async def test_our_write_over_a_change_by_others_counts_while_the_cache_shows_that_change() -> None:
    """After a conflict the cache gets their version first, which is older than our write."""
    harness = ReporterHarness()
    harness.write({**harness.live, "status": {"theirs": 1}}, cached=False)
    theirs = json.dumps(harness.live).encode()
    await harness.report(FINE)
    harness.cache[KEY] = theirs
    assert harness.reporter.newest(KEY) == harness.live
    harness.write({**harness.live, "status": {"theirs": 2}})
    assert harness.reporter.newest(KEY) == harness.live


async def test_a_conflict_is_read_again() -> None:
    """A field of another writer survives our write."""
    harness = ReporterHarness()
    harness.write({**harness.live, "status": {"theirs": 1}}, cached=False)
    await harness.report(FINE)
    assert harness.live["status"]["theirs"] == 1
    assert harness.live["status"]["observedGeneration"] == 1
    assert [verb for verb, _ in harness.api.calls] == ["patch", "get", "patch", "create"]


async def test_endless_conflicts_fail_the_reconcile() -> None:
    """After some tries the reconcile is retried as a whole."""
    harness = ReporterHarness()
    harness.api.get = lambda *_: _resolved(harness.live)  # type: ignore[assignment,method-assign]
    harness.api.faults = [Conflict(409, "Conflict", "m")] * 99
    with pytest.raises(Retryable, match="StatusConflict"):
        await harness.report(FINE)


async def _resolved(value: dict[str, Any]) -> dict[str, Any]:
    return value


async def test_other_errors_go_to_the_controller() -> None:
    """An unavailable server fails the reconcile, so that it is retried."""
    harness = ReporterHarness()
    harness.api.faults = [Unavailable(503, "ServiceUnavailable", "m")]
    with pytest.raises(Unavailable):
        await harness.report(FINE)


@pytest.mark.parametrize("is_cached", [True, False])
async def test_a_deleted_object_gets_no_report(is_cached: bool) -> None:
    """Deleted on the server or in the cache: nothing is written, nothing fails."""
    harness = ReporterHarness()
    if not is_cached:
        harness.cache.clear()
    harness.api.objects.clear()
    await harness.report(FINE)
    assert not harness.api.objects


async def test_an_outcome_of_gone_writes_nothing() -> None:
    """The reconcile observed that the object is deleted."""
    harness = ReporterHarness()
    await harness.report(Outcome.gone())
    assert not harness.api.calls


async def test_an_object_deleted_after_a_conflict_gets_no_report() -> None:
    """Deleted between the conflict and the second read."""
    harness = ReporterHarness()
    harness.api.faults = [Conflict(409, "Conflict", "m")]
    harness.api.objects.clear()
    await harness.report(FINE)
    assert [verb for verb, _ in harness.api.calls] == ["patch", "get"]


async def test_a_new_object_of_the_name_gets_no_report_for_the_old() -> None:
    """The outcome of the old uid is not written to the new one."""
    harness = ReporterHarness()
    seen = harness.reporter.read_status(KEY)
    harness.write(thing("a", uid="other"), cached=False)
    await harness.reporter.report(KEY, seen, FINE)
    assert "status" not in harness.live
    harness.catch_up()
    await harness.reporter.report(KEY, seen, FINE)
    assert "status" not in harness.live


async def test_the_report_is_about_the_object_before_the_reconcile() -> None:
    """A new generation or request during the reconcile is left for the next one."""
    harness = ReporterHarness()
    seen = harness.reporter.read_status(KEY)
    changed = harness.live
    changed["metadata"] |= {"generation": 2, "annotations": {ANNOTATIONS[0]: "go"}}
    harness.write(changed)
    await harness.reporter.report(KEY, seen, FINE)
    assert harness.live["status"]["observedGeneration"] == 1
    assert "lastHandledReconcileAt" not in harness.live["status"]
    harness.catch_up()
    await harness.report(FINE)
    assert harness.live["status"]["observedGeneration"] == 2
    assert harness.live["status"]["lastHandledReconcileAt"] == "go"


async def test_events_report_transitions_only() -> None:
    """A new status or reason is an event, a new message is not."""
    harness = ReporterHarness()
    for outcome in (FINE, FINE, Outcome(Verdict("True", "Ready", "new text")), STUCK, STUCK, FINE):
        await harness.report(outcome)
        harness.catch_up()
    assert harness.events == ["Ready", "AccessDenied", "Ready"]
    weights = [obj["type"] for (kind, *_), obj in harness.api.objects.items() if kind == "events"]
    assert weights == ["Normal", "Warning", "Normal"]


async def test_progress_is_not_a_warning() -> None:
    """Waiting is normal; failing is not."""
    harness = ReporterHarness()
    await harness.report(Outcome(Verdict("False", "Validating", "m"), reconciling=True))
    await harness.report(
        Outcome(Verdict("False", "PushFailed", "m"), reconciling=True, backoff=True)
    )
    weights = [obj["type"] for (kind, *_), obj in harness.api.objects.items() if kind == "events"]
    assert weights == ["Normal", "Warning"]


@pytest.mark.scenario("A109")
async def test_events_of_an_outcome_need_a_transition_or_a_request() -> None:
    """An outcome's own events are recorded when something changed, and once per request."""
    harness = ReporterHarness()
    event = OutcomeEvent("Normal", "SuspendedRequest", "asked while suspended")
    outcome = replace(Outcome.suspended("m"), events=(event,))
    await harness.report(outcome)
    await harness.report(outcome)
    assert harness.events == ["Suspended", "SuspendedRequest"]
    annotated = harness.live
    annotated["metadata"]["annotations"] = {ANNOTATIONS[1]: "please"}
    harness.write(annotated)
    await harness.report(outcome)
    harness.catch_up()
    await harness.report(outcome)
    assert harness.events == ["Suspended", "SuspendedRequest", "SuspendedRequest"]
    assert harness.live["status"]["lastHandledReconcileAt"] == "please"


async def test_a_standalone_event_needs_no_transition() -> None:
    """It is recorded with its status write, and not again."""
    harness = ReporterHarness()
    await harness.report(Outcome.suspended("m"))
    event = OutcomeEvent("Normal", "Deployed", "revision 2 is ready", stands_alone=True)
    outcome = replace(Outcome.suspended("m"), events=(event,), fields={"revision": 2})
    await harness.report(outcome)
    await harness.report(outcome)
    assert harness.events == ["Suspended", "Deployed"]


async def test_without_a_recorder_only_the_status_is_written() -> None:
    """Events are optional."""
    harness = ReporterHarness()
    harness.reporter = Reporter(harness.api, THINGS, harness.cache.get, field_manager="f")
    await harness.report(FINE)
    assert harness.events == []
    assert harness.live["status"]["conditions"]
