"""Informers of a capability, started and awaited together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.unit.runtime.fakes import observed
from windlass.kube.reflector import Scope, SnapshotComplete, SnapshotStarted
from windlass.objects.names import GVR, Key
from windlass.runtime import informer_registry
from windlass.runtime.informer import Informer
from windlass.runtime.informer_index import InformerIndex, read_namespace
from windlass.runtime.informer_registry import InformerRegistry

PODS = Scope(GVR("", "v1", "pods"))
NODES = Scope(GVR("", "v1", "nodes"))


def make_registry() -> tuple[InformerRegistry, Informer, Informer]:
    """A registry with an informer of pods and one of nodes."""
    registry = InformerRegistry(None)  # type: ignore[arg-type]
    return registry, registry.add(PODS), registry.add(NODES)


def complete(informer: Informer) -> None:
    """Feed an informer its first snapshot."""
    for event in (SnapshotStarted(), observed("a", 1, initial=True), SnapshotComplete("1", 1, "")):
        informer.apply(event)


def test_every_informer_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the task group of the capability, each under the name of its scope."""
    started: list[str] = []

    async def run(self: Informer) -> None:
        task = asyncio.current_task()
        assert task is not None
        started.append(f"{task.get_name()}: {self.scope}")

    monkeypatch.setattr(Informer, "run", run)

    async def start() -> None:
        async with asyncio.TaskGroup() as group:
            make_registry()[0].start(group)

    asyncio.run(start())
    assert started == [f"informer {scope}: {scope}" for scope in (PODS, NODES)]


def test_only_named_informers_are_awaited() -> None:
    """Without names all of them are."""

    async def wait() -> None:
        registry, pods, nodes = make_registry()
        complete(pods)
        await registry.wait_synced(pods)
        everything = asyncio.create_task(registry.wait_synced())
        await asyncio.sleep(0)
        assert not everything.done()
        complete(nodes)
        await everything

    asyncio.run(wait())


def test_a_long_wait_logs_the_missing_informers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once; then it continues to wait."""
    monkeypatch.setattr(informer_registry, "_PATIENCE_SECONDS", 0.0)

    async def wait() -> list[Any]:
        registry, pods, nodes = make_registry()
        complete(pods)
        with capture_logs() as logs:
            waiting = asyncio.create_task(registry.wait_synced())
            for _ in range(10):
                await asyncio.sleep(0)
            assert not waiting.done()
            complete(nodes)
            await waiting
        return logs

    (line,) = asyncio.run(wait())
    assert line["event"] == "waiting for the first list"
    assert line["scope"] == str(NODES)


def test_an_entered_value_is_found_before_the_informer_shows_the_object() -> None:
    """Our own write is listed at once; the informer's later versions replace it."""
    index: InformerIndex[str] = InformerIndex(read_namespace)
    key = Key("ns", "a")
    index.enter(key, "ns")
    assert index.keys_of("ns") == (key,)
    assert index.update(key, None) == {"ns"}
    assert index.keys_of("ns") == ()
    assert tuple(index.values()) == ()
