"""Record state of the controller: gaps, completeness and verdicts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from windlass.base.clock import SystemClock
from windlass.objects.names import GVR, Identity, Key
from windlass.reverser.attribution import record_join
from windlass.reverser.attribution.attributor import Attributor
from windlass.reverser.attribution.record_join import Observation
from windlass.reverser.attribution.records import AdmissionRecords
from windlass.reverser.metrics import MirrorMetrics
from windlass.telemetry.reverser import ReverserMetrics

_DROPPED = "gitopsreverser_kv_evictions_total"


def test_calls_that_left_no_record_are_counted() -> None:
    """ATT-2: records that the webhook's queue dropped are counted and are a record gap."""
    registry, records = CollectorRegistry(), AdmissionRecords()
    attributor = Attributor(records, MirrorMetrics(ReverserMetrics(registry)), SystemClock())
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
        SystemClock(),
        silence_seconds=float("inf"),
        on_state_change=lambda: states.put_nowait(attributor.state),
        **given,
    )
    return attributor, states


async def _next(states: asyncio.Queue[str]) -> str:
    return await asyncio.wait_for(states.get(), 5)


def _change(**given: Any) -> Observation:
    identity = Identity(MAPS, "ns", "one")
    known: dict[str, Any] = {"uid": "u", "operation": "UPDATE", "previous_resource_version": "1"}
    known |= {"identity": identity, "content": b"", "received": SystemClock().monotonic()}
    return Observation(**{**known, **given})


@pytest.mark.parametrize("order", ["serves first", "asked first"])
async def test_records_are_complete_when_the_webhook_serves_and_is_registered(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0.8: Starting until then; every change of that time has the reason Starting."""
    monkeypatch.setattr(record_join, "REACH_SECONDS", 0.05)
    attributor, states = _attributor()
    now = SystemClock().monotonic()
    steps = [lambda: attributor.set_serving(True), lambda: attributor.set_registered(True)]
    steps[order == "asked first"]()
    assert (attributor.state, attributor.is_settling(HERE)) == ("Starting", True)
    attributor.add_gap(0.0, now, 0)
    assert attributor.judge(_change(received=now)).reason == "Starting"
    steps[order != "asked first"]()
    early = SystemClock().monotonic()
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


async def test_an_unregistered_webhook_is_a_record_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No author is credited from just before this was noticed until the API server has reloaded."""
    monkeypatch.setattr(record_join, "REACH_SECONDS", 0.05)
    attributor, states = _attributor()
    attributor.set_serving(True)
    attributor.set_registered(True)
    assert await _next(states) == "Receiving"
    assert attributor.judge(_change()).reason == "NoRecord"
    attributor.set_registered(False)
    assert attributor.judge(_change()).reason == "RecordsLost"
    attributor.set_registered(True)
    assert attributor.judge(_change()).reason == "RecordsLost"
    attributor.set_serving(False)


def test_a_deletion_with_its_definition_has_no_author() -> None:
    """The API server sends no admission request, so no record could contradict a forged one."""
    attributor, _ = _attributor(definition_deleted=lambda gvr: gvr == MAPS)
    assert attributor.judge(_change(operation="DELETE")).reason == "DefinitionDeleted"
    assert attributor.judge(_change()).reason == "NoRecord"
