"""Events on destinations that do not come from a condition."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from tests.unit.runtime.fakes import FakeApi, ManualClock, thing
from windlass.objects.names import GVR, Identity, Key
from windlass.reverser import events
from windlass.reverser.event_queue import EventQueue
from windlass.runtime.events import EventRecorder
from windlass.runtime.outcome import OutcomeEvent

HERE = Key("ns", "here")


async def _recorded(*queued: tuple[Key, OutcomeEvent, str]) -> list[str]:
    """The reasons of the events that are created from what is queued."""
    api = FakeApi()
    recorder = EventRecorder(api, "windlass.dev/reverser", clock=ManualClock())
    stored = {HERE: msgspec.json.encode(thing("here", uid="u1"))}
    queue = EventQueue(recorder, stored.get)
    for item in queued:
        queue.add(*item)
    running = asyncio.create_task(queue.run())
    for _ in range(10 * len(queued)):
        await asyncio.sleep(0)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return [event["reason"] for event in api.objects.values()]


async def test_a_repeated_transition_is_one_event() -> None:
    """Queueing it again, after a restart too, adds no event."""
    event = events.history_rewritten("main", "a" * 40, "b" * 40)
    assert await _recorded((HERE, event, "tip"), (HERE, event, "tip")) == ["RemoteRewound"]


async def test_a_destination_that_is_gone_gets_no_event() -> None:
    """There is no object left to attach it to."""
    event = OutcomeEvent("Normal", "BranchCreated", "m")
    assert await _recorded((Key("ns", "gone"), event, "x")) == []


async def test_too_many_events_are_left_out() -> None:
    """Queueing never blocks; what does not fit is dropped."""
    many = [(HERE, OutcomeEvent("Normal", "BranchCreated", f"m{n}"), str(n)) for n in range(400)]
    assert len(await _recorded(*many)) == 256


def test_an_object_that_cannot_be_read_is_named() -> None:
    """The text says which object, why, and what becomes of its file."""
    identity = Identity(GVR("", "v1", "configmaps"), "team", "bad")
    event = events.object_undecodable(identity, "an integer exceeds 64 bits")
    assert event.reason == "ObjectUndecodable"
    for text in ("v1/configmaps/team/bad", "exceeds 64 bits", "its file is kept"):
        assert text in event.message


def test_only_a_new_branch_or_claim_is_an_event() -> None:
    """An ordinary push is a commit and nothing more."""
    assert events.push_events("main", "a", creates=False, claims=False) == ()
    push_events = events.push_events("main", "a", creates=True, claims=True)
    assert [event.reason for event in push_events] == ["BranchCreated", "DestinationClaimed"]
