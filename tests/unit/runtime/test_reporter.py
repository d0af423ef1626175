"""Writing outcomes down."""

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


class World:
    """An API server, a cache that is told when to catch up, and a reporter."""

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

    async def passed(self, outcome: Outcome) -> None:
        seen = self.reporter.read_status(KEY)
        self.clock.seconds += 10
        await self.reporter.report(KEY, seen, outcome)


async def test_one_write_per_pass_and_none_for_the_same() -> None:
    """The first pass writes once, the second one nothing, also with a cache that lags."""
    world = World()
    await world.passed(FINE)
    await world.passed(FINE)
    world.catch_up()
    await world.passed(FINE)
    assert [verb for verb, _ in world.api.calls] == ["patch", "create"]
    assert world.live["status"]["observedGeneration"] == 1


async def test_the_write_is_guarded_by_uid_and_version() -> None:
    """What the report was computed from is what it is written over."""
    world = World()
    await world.passed(FINE)
    assert world.api.patches[0]["metadata"] == {"uid": "uid-a", "resourceVersion": "1"}


async def test_a_lagging_cache_does_not_bring_back_an_old_status() -> None:
    """Our own write counts before the cache shows it: back to the old state is a real write."""
    world = World()
    await world.passed(FINE)
    world.catch_up()
    await world.passed(STUCK)
    await world.passed(FINE)
    assert [row["type"] for row in world.live["status"]["conditions"]] == ["Ready"]
    assert world.live["status"]["conditions"][0]["status"] == "True"
    assert not [verb for verb, _ in world.api.calls if verb == "get"]


async def test_a_conflict_is_read_again() -> None:
    """Somebody else's field survives our write."""
    world = World()
    world.write({**world.live, "status": {"theirs": 1}}, cached=False)
    await world.passed(FINE)
    assert world.live["status"]["theirs"] == 1
    assert world.live["status"]["observedGeneration"] == 1
    assert [verb for verb, _ in world.api.calls] == ["patch", "get", "patch", "create"]


async def test_endless_conflicts_are_an_error_of_the_pass() -> None:
    """After some tries the pass is retried as a whole."""
    world = World()
    world.api.get = lambda *_: _resolved(world.live)  # type: ignore[assignment,method-assign]
    world.api.faults = [Conflict(409, "Conflict", "m")] * 99
    with pytest.raises(Retryable, match="StatusConflict"):
        await world.passed(FINE)


async def _resolved(value: dict[str, Any]) -> dict[str, Any]:
    return value


async def test_other_errors_go_to_the_controller() -> None:
    """An unavailable server fails the pass, so that it is tried again."""
    world = World()
    world.api.faults = [Unavailable(503, "ServiceUnavailable", "m")]
    with pytest.raises(Unavailable):
        await world.passed(FINE)


@pytest.mark.parametrize("is_cached", [True, False])
async def test_a_gone_object_gets_no_report(is_cached: bool) -> None:
    """Gone from the server or from the cache: nothing is written, nothing fails."""
    world = World()
    if not is_cached:
        world.cache.clear()
    world.api.objects.clear()
    await world.passed(FINE)
    assert not world.api.objects


async def test_an_outcome_of_gone_writes_nothing() -> None:
    """The pass saw that the object is gone."""
    world = World()
    await world.passed(Outcome.gone())
    assert not world.api.calls


async def test_an_object_gone_after_a_conflict_gets_no_report() -> None:
    """Deleted between the conflict and the second look."""
    world = World()
    world.api.faults = [Conflict(409, "Conflict", "m")]
    world.api.objects.clear()
    await world.passed(FINE)
    assert [verb for verb, _ in world.api.calls] == ["patch", "get"]


async def test_a_new_object_of_the_name_gets_no_report_for_the_old() -> None:
    """What was found about the old uid is not said of the new one."""
    world = World()
    seen = world.reporter.read_status(KEY)
    world.write(thing("a", uid="other"), cached=False)
    await world.reporter.report(KEY, seen, FINE)
    assert "status" not in world.live
    world.catch_up()
    await world.reporter.report(KEY, seen, FINE)
    assert "status" not in world.live


async def test_the_report_answers_for_what_was_there_before_the_pass() -> None:
    """A new generation and a new request during the pass are left for the next pass."""
    world = World()
    seen = world.reporter.read_status(KEY)
    changed = world.live
    changed["metadata"] |= {"generation": 2, "annotations": {ANNOTATIONS[0]: "go"}}
    world.write(changed)
    await world.reporter.report(KEY, seen, FINE)
    assert world.live["status"]["observedGeneration"] == 1
    assert "lastHandledReconcileAt" not in world.live["status"]
    world.catch_up()
    await world.passed(FINE)
    assert world.live["status"]["observedGeneration"] == 2
    assert world.live["status"]["lastHandledReconcileAt"] == "go"


async def test_events_tell_of_transitions_only() -> None:
    """A new status or reason is an event, a new message is not."""
    world = World()
    for outcome in (FINE, FINE, Outcome(Verdict("True", "Ready", "new text")), STUCK, STUCK, FINE):
        await world.passed(outcome)
        world.catch_up()
    assert world.events == ["Ready", "AccessDenied", "Ready"]
    weights = [obj["type"] for (kind, *_), obj in world.api.objects.items() if kind == "events"]
    assert weights == ["Normal", "Warning", "Normal"]


async def test_progress_is_no_warning() -> None:
    """Waiting for something is normal; failing is not."""
    world = World()
    await world.passed(Outcome(Verdict("False", "Validating", "m"), reconciling=True))
    await world.passed(Outcome(Verdict("False", "PushFailed", "m"), reconciling=True, backoff=True))
    weights = [obj["type"] for (kind, *_), obj in world.api.objects.items() if kind == "events"]
    assert weights == ["Normal", "Warning"]


@pytest.mark.scenario("A109")
async def test_notices_come_with_a_transition_or_a_request() -> None:
    """An outcome's own events are recorded when something changed, and once per request."""
    world = World()
    notice = OutcomeEvent("Normal", "SuspendedRequest", "asked while suspended")
    outcome = replace(Outcome.suspended("m"), events=(notice,))
    await world.passed(outcome)
    await world.passed(outcome)
    assert world.events == ["Suspended", "SuspendedRequest"]
    asked = world.live
    asked["metadata"]["annotations"] = {ANNOTATIONS[1]: "please"}
    world.write(asked)
    await world.passed(outcome)
    world.catch_up()
    await world.passed(outcome)
    assert world.events == ["Suspended", "SuspendedRequest", "SuspendedRequest"]
    assert world.live["status"]["lastHandledReconcileAt"] == "please"


async def test_a_notice_that_stands_alone_needs_no_condition_to_change() -> None:
    """It is recorded with the write that it belongs to, and not again."""
    world = World()
    await world.passed(Outcome.suspended("m"))
    notice = OutcomeEvent("Normal", "Deployed", "revision 2 is ready", stands_alone=True)
    outcome = replace(Outcome.suspended("m"), events=(notice,), fields={"revision": 2})
    await world.passed(outcome)
    await world.passed(outcome)
    assert world.events == ["Suspended", "Deployed"]


async def test_without_a_recorder_only_the_status_is_written() -> None:
    """Events are optional."""
    world = World()
    world.reporter = Reporter(world.api, THINGS, world.cache.get, field_manager="f")
    await world.passed(FINE)
    assert world.events == []
    assert world.live["status"]["conditions"]
