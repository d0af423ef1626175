"""Record state of the controller: gaps, completeness and verdicts, on virtual time."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.unit.runtime.fakes import LoopClock
from windlass.objects.names import GVR, Identity, Key
from windlass.reverser.attribution.attributor import Attributor
from windlass.reverser.attribution.record_join import Observation
from windlass.reverser.attribution.records import AdmissionRecords
from windlass.reverser.attribution.webhook_frames import RecordFrame
from windlass.reverser.metrics import MirrorMetrics
from windlass.telemetry.reverser import ReverserMetrics

pytestmark = pytest.mark.looptime

_DROPPED = "gitopsreverser_kv_evictions_total"


def test_calls_that_left_no_record_are_counted() -> None:
    """ATT-2: records that the webhook's queue dropped are counted and are a record gap."""
    registry, records = CollectorRegistry(), AdmissionRecords()
    attributor = Attributor(records, MirrorMetrics(ReverserMetrics(registry)), LoopClock())
    attributor.add_gap(1.0, 2.0, 7)
    attributor.add_gap(5.0, 6.0, 0)
    assert registry.get_sample_value(_DROPPED, {"reason": "overflow"}) == 7
    assert records.has_gap(0.0, 1.5)
    assert records.has_gap(5.5, 7.0)
    assert not records.has_gap(2.5, 4.5)


MAPS = GVR("", "v1", "configmaps")
HERE = Key("ns", "destination")


def _attributor(**given: Any) -> tuple[Attributor, asyncio.Queue[str]]:
    """An attributor without a silence limit, and the states it changes to."""
    states: asyncio.Queue[str] = asyncio.Queue()
    metrics = MirrorMetrics(ReverserMetrics(CollectorRegistry()))
    attributor = Attributor(
        AdmissionRecords(),
        metrics,
        LoopClock(),
        silence_seconds=float("inf"),
        on_state_change=lambda: states.put_nowait(attributor.state),
        **given,
    )
    attributor.heartbeat(0.0, math.inf)
    return attributor, states


async def _next(states: asyncio.Queue[str]) -> str:
    return await asyncio.wait_for(states.get(), 5)


def _change(**given: Any) -> Observation:
    identity = Identity(MAPS, "ns", "one")
    known: dict[str, Any] = {"uid": "u", "operation": "UPDATE", "previous_resource_version": "1"}
    known |= {"identity": identity, "content": b"", "received": LoopClock().monotonic()}
    return Observation(**{**known, **given})


@pytest.mark.parametrize("order", ["serves first", "asked first"])
async def test_records_are_complete_when_the_webhook_serves_and_is_registered(order: str) -> None:
    """0.8: Starting until then; every change of that time has the reason Starting."""
    attributor, states = _attributor()
    now = LoopClock().monotonic()
    steps = [lambda: attributor.set_serving(True), lambda: attributor.set_registered(True)]
    steps[order == "asked first"]()
    assert (attributor.state, attributor.is_settling(HERE)) == ("Starting", True)
    attributor.add_gap(0.0, now, 0)
    assert attributor.judge(_change(received=now)).reason == "Starting"
    await asyncio.sleep(1)
    steps[order != "asked first"]()
    early = LoopClock().monotonic()
    assert await _next(states) == "Receiving"
    assert attributor.judge(_change()).reason == "NoRecord"
    attributor.add_gap(early, early + 100, 0)
    assert attributor.judge(_change(received=early + 10)).reason == "RecordsLost"


async def test_changes_without_a_webhook_configuration_lose_their_records() -> None:
    """However long ago the start was: only the configuration ends it, and a user installs that."""
    attributor, _ = _attributor()
    attributor.set_serving(True)
    attributor.set_registered(False)
    assert attributor.judge(_change()).reason == "RecordsLost"
    attributor.set_registered(True)
    assert attributor.judge(_change()).reason == "Starting"
    attributor.set_serving(False)


async def test_starting_is_reported_after_the_first_change_without_an_author() -> None:
    """Before that, a status that is Ready stays as it is."""
    attributor, states = _attributor()
    attributor.record_write(HERE, Identity(MAPS, "ns", "one"))
    attributor.record_write(HERE, Identity(MAPS, "ns", "two"))
    assert [states.get_nowait() for _ in range(states.qsize())] == ["Starting"]
    assert not attributor.is_settling(HERE)
    assert attributor.is_settling(Key("ns", "elsewhere"))


async def test_a_webhook_that_hangs_is_reported_soon_after_a_start() -> None:
    """2.2: records may never be complete; a status waits for them for ten seconds at most."""
    attributor, states = _attributor()
    attributor.limit_settling()
    await asyncio.sleep(9.9)
    assert attributor.is_settling(HERE)
    assert states.empty()
    assert await _next(states) == "Starting"
    assert not attributor.is_settling(HERE)


async def test_an_unregistered_webhook_is_a_record_gap() -> None:
    """No author is credited from just before this was noticed until the API server has reloaded."""
    attributor, states = _attributor()
    attributor.set_serving(True)
    attributor.set_registered(True)
    assert await _next(states) == "Receiving"
    await asyncio.sleep(1)
    assert attributor.judge(_change()).reason == "NoRecord"
    attributor.set_registered(False)
    assert attributor.judge(_change()).reason == "RecordsLost"
    attributor.set_registered(True)
    assert attributor.judge(_change()).reason == "RecordsLost"
    attributor.set_serving(False)


async def test_a_deletion_with_its_definition_has_no_author() -> None:
    """The API server sends no admission request, so no record could contradict a forged one."""
    attributor, _ = _attributor(definition_deleted=lambda gvr: gvr == MAPS)
    assert attributor.judge(_change(operation="DELETE")).reason == "DefinitionDeleted"
    assert attributor.judge(_change()).reason == "NoRecord"


def _record(user: str, *, received: float) -> RecordFrame:
    """The request of `user` that `_change` fits."""
    return RecordFrame(
        time=received,
        user=user,
        email="",
        display_name="",
        operation="UPDATE",
        group="",
        version="v1",
        resource="configmaps",
        subresource="",
        namespace="ns",
        name="one",
        uid="u",
        old_resource_version="1",
        content=b"",
        replicas=None,
    )


async def _serving_attributor() -> Attributor:
    """An attributor with complete records, whose webhook process sends no heartbeat by itself."""
    metrics = MirrorMetrics(ReverserMetrics(CollectorRegistry()))
    attributor = Attributor(AdmissionRecords(), metrics, LoopClock())
    attributor.heartbeat(LoopClock().monotonic(), LoopClock().monotonic())
    attributor.set_serving(True)
    attributor.set_registered(True)
    for _ in range(20):
        await asyncio.sleep(0.2)
        attributor.heartbeat(LoopClock().monotonic(), LoopClock().monotonic())
    await asyncio.sleep(0.1)
    return attributor


async def test_no_author_while_the_true_record_may_still_wait_in_the_webhook() -> None:
    """P6: a refused or forged request is not credited because the true record comes later."""
    attributor = await _serving_attributor()
    attributor.add_record(_record("mallory", received=LoopClock().monotonic()))
    await asyncio.sleep(0.1)
    change, now = _change(), LoopClock().monotonic()
    assert attributor.judge(change).reason == "RecordsLost"
    attributor.heartbeat(now + 0.1, now - 0.01)
    assert attributor.judge(change).reason == "RecordsLost"
    attributor.add_record(_record("alice", received=now - 0.01))
    attributor.heartbeat(now + 0.2, now + 0.2)
    assert attributor.judge(change).reason == "Ambiguous"
    attributor.set_serving(False)


@pytest.mark.parametrize("seconds", [0.1, 0.5])
async def test_records_of_a_change_are_awaited(seconds: float) -> None:
    """The webhook process is asked, and its first heartbeat that is new enough ends the wait."""
    attributor, loop = await _serving_attributor(), asyncio.get_running_loop()
    received = LoopClock().monotonic()

    def answer() -> None:
        loop.call_later(seconds / 2, attributor.heartbeat, received + seconds / 2, received - 0.1)
        loop.call_later(seconds, attributor.heartbeat, received + seconds, received + seconds)

    attributor.request_heartbeat = answer
    await attributor.await_records(received)
    assert LoopClock().monotonic() == pytest.approx(received + seconds)
    await attributor.await_records(received)
    assert LoopClock().monotonic() == pytest.approx(received + seconds)
    attributor.set_serving(False)


async def test_no_record_is_awaited_for_longer_than_a_silence_may_last() -> None:
    """ATT-7: attribution does not delay state, neither while the webhook hangs nor without one."""
    attributor = await _serving_attributor()
    received = LoopClock().monotonic()
    await attributor.await_records(received)
    assert LoopClock().monotonic() == pytest.approx(received + 0.8)
    await attributor.await_records(received)
    attributor.set_serving(False)
    await attributor.await_records(received + 1.0)
    assert LoopClock().monotonic() == pytest.approx(received + 0.8)


async def test_authors_are_not_provable_while_the_webhook_hangs() -> None:
    """The gauge follows the next heartbeat: a hang may last longer than records reach back."""
    registry = CollectorRegistry()
    attributor = Attributor(
        AdmissionRecords(), MirrorMetrics(ReverserMetrics(registry)), LoopClock()
    )

    def is_provable() -> bool:
        return registry.get_sample_value("windlass_mirror_authors_provable") == 1.0

    async def beat(times: int) -> None:
        for _ in range(times):
            attributor.heartbeat(LoopClock().monotonic(), LoopClock().monotonic())
            await asyncio.sleep(0.2)

    await beat(1)
    attributor.set_serving(True)
    attributor.set_registered(True)
    await beat(9)
    assert is_provable()
    await asyncio.sleep(1.0)
    attributor.judge(_change())
    await asyncio.sleep(10.0)
    assert not is_provable()
    await beat(5)
    assert not is_provable()
    await beat(5)
    assert is_provable()
    attributor.set_serving(False)
