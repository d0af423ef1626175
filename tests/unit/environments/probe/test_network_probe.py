"""Tests of how a network probe listens, and of how it cleans up when it is disturbed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.runtime.fakes import LoopClock
from windlass.base.errors import Retryable
from windlass.environments.probe.enforcement import Caller, ProbeObservation
from windlass.environments.probe.network_probe import CallLogs, ProbeNamespaces
from windlass.kube.errors import Unavailable

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


class Logs:
    """An API server with the logs of two callers; each look tells the next of some answers."""

    def __init__(self, **answers: list[str | Exception]) -> None:
        self._answers = answers

    async def text(self, path: str) -> str:
        caller = "stranger" if "/stranger/" in path else "neighbour"
        told = self._answers[caller]
        answer = told.pop(0) if len(told) > 1 else told[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def _log(way: str, *numbers: int) -> str:
    return "".join(f"{number} {way}\n" for number in numbers)


async def _sight(**answers: list[str | Exception]) -> ProbeObservation:
    callers: dict[Caller, str] = {"stranger": "there", "neighbour": "here"}
    listening = CallLogs(Logs(**answers), LoopClock(), callers, 5.0)  # type: ignore[arg-type]
    return await listening.wait_until("shut")


LOST = Unavailable(0, "Unreachable", "no route to the kubelet")


async def test_what_was_said_before_a_wait_does_not_count() -> None:
    """Also where the first look at a log fails: a caller that fell silent is no open way."""
    shut = [_log("open", 1), _log("shut", 2, 3, 4)]
    sight = await _sight(stranger=[*shut], neighbour=[LOST, _log("open", 1, 2, 3)])
    assert (sight.stranger, sight.neighbor) == ("shut", "silent")
    sight = await _sight(stranger=[*shut], neighbour=[_log("open", 1), _log("open", 2, 3, 4)])
    assert (sight.stranger, sight.neighbor) == ("shut", "open")


async def test_why_one_caller_is_not_heard_is_told_though_the_other_one_is() -> None:
    """Whichever of the two it is."""
    open_way = [_log("open", 1), _log("open", 2, 3, 4)]
    assert "of pod stranger" in (await _sight(stranger=[LOST], neighbour=[*open_way])).error
    assert "of pod neighbour" in (await _sight(stranger=[*open_way], neighbour=[LOST])).error


class Cluster:
    """An API server that knows namespaces; `disturb` is called when they are listed."""

    def __init__(self) -> None:
        self.places: dict[str, dict[str, Any]] = {}
        self.stays = False
        self.answers = asyncio.Event()
        self.answers.set()
        self.disturb: Callable[[], Any] = lambda: None

    async def create(self, gvr: object, obj: dict[str, Any], *, field_manager: str) -> Any:
        if obj["kind"] == "Namespace":
            # A server goes on though its client has gone.
            await asyncio.shield(asyncio.ensure_future(self._make(obj)))
        return obj

    async def _make(self, obj: dict[str, Any]) -> None:
        await self.answers.wait()
        self.places[obj["metadata"]["name"]] = obj
        obj["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}

    async def delete(self, gvr: object, name: str, *, uid: str) -> None:
        if not self.stays:
            del self.places[name]

    async def list(self, gvr: object, *, label_selector: str) -> list[Any]:
        self.disturb()
        return list(self.places.values())


def _held(cluster: Cluster, told: list[str]) -> asyncio.Task[None]:
    places = ProbeNamespaces(cluster, LoopClock(), told.append, "run")  # type: ignore[arg-type]

    async def hold() -> None:
        async with places.create():
            await asyncio.Event().wait()

    return asyncio.create_task(hold())


async def test_a_namespace_that_comes_after_the_interruption_goes_too() -> None:
    """Whoever interrupts while it is being made waits for the API server's answer."""
    cluster = Cluster()
    cluster.answers.clear()
    holding = _held(cluster, [])
    await asyncio.sleep(1)
    holding.cancel()
    await asyncio.sleep(1)
    cluster.answers.set()
    with pytest.raises(asyncio.CancelledError):
        await holding
    await asyncio.sleep(1)
    assert cluster.places == {}


@pytest.mark.parametrize("pause", [0, 1])
async def test_who_does_not_wait_for_the_end_is_told_what_stays(pause: int) -> None:
    """The second interruption ends the probe; the names and the way out are on the screen."""
    cluster, told = Cluster(), list[str]()
    cluster.stays = True
    holding = _held(cluster, told)
    await asyncio.sleep(1)
    holding.cancel()
    await asyncio.sleep(pause)
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding
    for name in cluster.places:
        assert any(f"kubectl delete namespace {name}" in text for text in told)


async def test_a_credential_that_cannot_be_renewed_hides_nothing() -> None:
    """What stays is told, and the error of the block itself arrives."""
    cluster, told = Cluster(), list[str]()

    def disturb() -> None:
        if told:  # cleaning up has begun
            raise Retryable("CredentialPluginFailed", "the credential plugin failed")

    cluster.disturb = disturb
    places = ProbeNamespaces(cluster, LoopClock(), told.append, "run")  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        async with places.create():
            raise ZeroDivisionError
    assert list(places.leftovers) == list(cluster.places)
    assert any("the credential plugin failed" in text for text in told)
