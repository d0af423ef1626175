"""Events on destinations that no turn of a condition brings."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from tests.unit.runtime.fakes import FakeApi, HandClock, thing
from windlass.objects.names import GVR, Identity, Key
from windlass.reverser import events
from windlass.reverser.event_queue import EventQueue
from windlass.runtime.events import EventRecorder
from windlass.runtime.outcome import OutcomeEvent

HERE = Key("ns", "here")


async def _recorded(*told: tuple[Key, OutcomeEvent, str]) -> list[str]:
    """The reasons of the events that come of these tellings."""
    api = FakeApi()
    recorder = EventRecorder(api, "windlass.dev/reverser", clock=HandClock())
    stored = {HERE: msgspec.json.encode(thing("here", uid="u1"))}
    announcer = EventQueue(recorder, stored.get)
    for one in told:
        announcer.add(*one)
    running = asyncio.create_task(announcer.run())
    for _ in range(10 * len(told)):
        await asyncio.sleep(0)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return [event["reason"] for event in api.objects.values()]


async def test_a_transition_told_twice_is_one_event() -> None:
    """Whoever notices it again, after a restart too, adds nothing."""
    notice = events.history_rewritten("main", "a" * 40, "b" * 40)
    assert await _recorded((HERE, notice, "tip"), (HERE, notice, "tip")) == ["RemoteRewound"]


async def test_a_destination_that_is_gone_gets_no_event() -> None:
    """There is nothing left to tell it to."""
    notice = OutcomeEvent("Normal", "BranchCreated", "m")
    assert await _recorded((Key("ns", "gone"), notice, "x")) == []


async def test_too_many_events_are_left_out() -> None:
    """Telling never waits; what does not fit is dropped."""
    many = [(HERE, OutcomeEvent("Normal", "BranchCreated", f"m{n}"), str(n)) for n in range(400)]
    assert len(await _recorded(*many)) == 256


def test_an_object_that_cannot_be_read_is_named() -> None:
    """The text says which object, why, and what becomes of its file."""
    identity = Identity(GVR("", "v1", "configmaps"), "team", "bad")
    notice = events.object_undecodable(identity, "an integer exceeds 64 bits")
    assert notice.reason == "ObjectUndecodable"
    for text in ("v1/configmaps/team/bad", "exceeds 64 bits", "its file is kept"):
        assert text in notice.message


def test_only_a_push_that_did_something_new_is_told() -> None:
    """An ordinary push is a commit and nothing more."""
    assert events.push_events("main", "a", creates=False, claims=False) == ()
    both = events.push_events("main", "a", creates=True, claims=True)
    assert [notice.reason for notice in both] == ["BranchCreated", "DestinationClaimed"]
