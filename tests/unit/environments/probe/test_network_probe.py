"""How a network probe reads logs, and cleans up when it is interrupted."""

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
    """An API server with the logs of two callers; each read returns the next one."""

    def __init__(self, **logs: list[str | Exception]) -> None:
        self._logs = logs

    async def text(self, path: str) -> str:
        caller = "stranger" if "/stranger/" in path else "neighbour"
        remaining = self._logs[caller]
        log = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        if isinstance(log, Exception):
            raise log
        return log


def _log(way: str, *numbers: int) -> str:
    return "".join(f"{number} {way}\n" for number in numbers)


async def _observe(**logs: list[str | Exception]) -> ProbeObservation:
    callers: dict[Caller, str] = {"stranger": "there", "neighbour": "here"}
    listening = CallLogs(Logs(**logs), LoopClock(), callers, 5.0)  # type: ignore[arg-type]
    return await listening.wait_until("shut")


LOST = Unavailable(0, "Unreachable", "no route to the kubelet")


async def test_calls_logged_before_a_wait_do_not_count() -> None:
    """Also where the first read of a log fails: a silent caller is no open connection."""
    shut = [_log("open", 1), _log("shut", 2, 3, 4)]
    sight = await _observe(stranger=[*shut], neighbour=[LOST, _log("open", 1, 2, 3)])
    assert (sight.stranger, sight.neighbor) == ("shut", "silent")
    sight = await _observe(stranger=[*shut], neighbour=[_log("open", 1), _log("open", 2, 3, 4)])
    assert (sight.stranger, sight.neighbor) == ("shut", "open")


async def test_one_missing_log_is_reported_though_the_other_is_read() -> None:
    """Whichever of the two it is."""
    open_way = [_log("open", 1), _log("open", 2, 3, 4)]
    assert "of pod stranger" in (await _observe(stranger=[LOST], neighbour=[*open_way])).error
    assert "of pod neighbour" in (await _observe(stranger=[*open_way], neighbour=[LOST])).error


async def test_a_call_lost_at_the_end_of_a_wait_is_not_the_verdict() -> None:
    """The callers are observed until their calls end alike again, but not for ever."""
    before, steady = _log("open", 1), _log("open", 2, 3, 4)
    unsteady = _log("open", 3, 4) + _log("shut", 5)
    polls = 16  # those after the first one, until the five seconds are over
    logs = [before, *[steady] * polls, unsteady, unsteady, _log("open", 6, 7, 8)]
    sight = await _observe(stranger=[*logs], neighbour=[before, steady])
    assert sight.stranger == "open"
    assert sight.seconds > 5.5
    sight = await _observe(stranger=[before, unsteady], neighbour=[before, steady])
    assert sight.stranger == "unsteady"


class Cluster:
    """An API server that knows namespaces; `disturb` is called when they are listed."""

    def __init__(self) -> None:
        self.namespaces: dict[str, dict[str, Any]] = {}
        self.stays = False
        self.responds = asyncio.Event()
        self.responds.set()
        self.disturb: Callable[[], Any] = lambda: None

    async def create(self, gvr: object, obj: dict[str, Any], *, field_manager: str) -> Any:
        if obj["kind"] == "Namespace":
            # A server goes on though its client has gone.
            await asyncio.shield(asyncio.ensure_future(self._make(obj)))
        return obj

    async def _make(self, obj: dict[str, Any]) -> None:
        await self.responds.wait()
        self.namespaces[obj["metadata"]["name"]] = obj
        obj["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}

    async def delete(self, gvr: object, name: str, *, uid: str) -> None:
        if not self.stays:
            del self.namespaces[name]

    async def list(self, gvr: object, *, label_selector: str) -> list[Any]:
        self.disturb()
        return list(self.namespaces.values())


def _hold_namespaces(cluster: Cluster, reported: list[str]) -> asyncio.Task[None]:
    namespaces = ProbeNamespaces(cluster, LoopClock(), reported.append, "run")  # type: ignore[arg-type]

    async def hold() -> None:
        async with namespaces.create():
            await asyncio.Event().wait()

    return asyncio.create_task(hold())


async def test_a_namespace_created_after_the_interruption_is_deleted_too() -> None:
    """An interruption during its creation waits for the API server's response."""
    cluster = Cluster()
    cluster.responds.clear()
    task = _hold_namespaces(cluster, [])
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.sleep(1)
    cluster.responds.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(1)
    assert cluster.namespaces == {}


@pytest.mark.parametrize("pause", [0, 1])
async def test_a_second_interruption_names_what_is_left(pause: int) -> None:
    """It ends the probe; the names and the command that deletes them are printed."""
    cluster, reported = Cluster(), list[str]()
    cluster.stays = True
    task = _hold_namespaces(cluster, reported)
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.sleep(pause)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for name in cluster.namespaces:
        assert any(f"kubectl delete namespace {name}" in text for text in reported)


async def test_a_credential_that_cannot_be_renewed_hides_nothing() -> None:
    """What is left is reported, and the error of the block itself is raised."""
    cluster, reported = Cluster(), list[str]()

    def disturb() -> None:
        if reported:  # cleaning up has begun
            raise Retryable("CredentialPluginFailed", "the credential plugin failed")

    cluster.disturb = disturb
    namespaces = ProbeNamespaces(cluster, LoopClock(), reported.append, "run")  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        async with namespaces.create():
            raise ZeroDivisionError
    assert list(namespaces.leftovers) == list(cluster.namespaces)
    assert any("the credential plugin failed" in text for text in reported)
