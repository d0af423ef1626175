"""Recording events."""

from __future__ import annotations

import re

import pytest

from tests.unit.runtime.fakes import FakeApi, ManualClock, thing
from windlass.base.redaction import process
from windlass.kube.errors import Forbidden
from windlass.runtime.events import EventRecorder, ObjectRef, cut_note

COMPONENT = "windlass.dev/reverser"


def recorder(api: FakeApi) -> EventRecorder:
    """A recorder with a clock that does not advance."""
    return EventRecorder(api, COMPONENT, instance="here", clock=ManualClock())


async def test_an_event_regards_its_object() -> None:
    """The event lies in the namespace of its object, names it by uid, and has a reporter."""
    api = FakeApi()
    await recorder(api).record(ObjectRef.of(thing("a", uid="u1")), "Warning", "Stuck", "why")
    [event] = api.objects.values()
    assert event["metadata"]["namespace"] == "ns"
    assert event["regarding"]["uid"] == "u1"
    assert event["regarding"]["kind"] == "Thing"
    assert (event["type"], event["reason"], event["note"]) == ("Warning", "Stuck", "why")
    assert event["reportingController"] == COMPONENT
    assert event["reportingInstance"] == "here"
    assert event["eventTime"] == "2026-01-01T00:00:00.000000Z"


async def test_a_cluster_scoped_object_has_its_events_in_default() -> None:
    """The API server requires a namespace for every event."""
    api = FakeApi()
    ref = ObjectRef.of(thing("a", namespace=""))
    await recorder(api).record(ref, "Normal", "Ready", "m")
    assert [event["metadata"]["namespace"] for event in api.objects.values()] == ["default"]


async def test_a_transition_is_recorded_once() -> None:
    """The same transition again records nothing, another one is a new event."""
    api = FakeApi()
    ref = ObjectRef.of(thing("a"))
    for transition in ("7", "7", "8"):
        await recorder(api).record(ref, "Normal", "Ready", "m", transition=transition)
    assert len(api.objects) == 2


async def test_without_a_transition_each_event_is_new() -> None:
    """Names are unique."""
    api = FakeApi()
    for _ in range(3):
        await recorder(api).record(ObjectRef.of(thing("a")), "Normal", "Ready", "m")
    assert len(api.objects) == 3


async def test_a_failure_to_record_does_not_fail_the_caller() -> None:
    """Events are best effort."""
    api = FakeApi()
    api.faults = [Forbidden(403, "Forbidden", "no events for you")]
    await recorder(api).record(ObjectRef.of(thing("a")), "Normal", "Ready", "m")
    assert not api.objects


@pytest.mark.parametrize("name", ["a" * 253, ("a" * 62 + ".") * 4 + "b", "x"])
async def test_names_stay_within_the_limits(name: str) -> None:
    """A long object name is cut to a valid event name."""
    api = FakeApi()
    await recorder(api).record(ObjectRef.of(thing(name)), "Normal", "Ready", "m")
    [(_, _, event_name)] = api.objects
    assert len(event_name) <= 253
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", event_name)


@pytest.mark.parametrize("text", ["x" * 5000, "ü" * 900, "a" + "€" * 500])
def test_a_note_is_cut_by_bytes(text: str) -> None:
    """The API server counts bytes; no character is cut in two."""
    note = cut_note(text)
    assert len(note.encode()) <= 1024
    assert note.endswith("…")
    assert text.startswith(note[:-1])


def test_a_short_note_is_kept() -> None:
    """Exactly the limit is not cut."""
    assert cut_note("x" * 1024) == "x" * 1024


async def test_a_note_carries_no_credential() -> None:
    """Known secrets are redacted before the text leaves the process."""
    api = FakeApi()
    process.add("t0psecret")
    try:
        await recorder(api).record(ObjectRef.of(thing("a")), "Warning", "X", "with t0psecret")
    finally:
        process.discard("t0psecret")
    assert [event["note"] for event in api.objects.values()] == ["with [redacted]"]
