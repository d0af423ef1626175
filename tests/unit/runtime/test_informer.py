"""The cache of one scope."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, Literal

import pytest

from tests.unit.runtime.fakes import ManualClock, observed
from windlass.kube.reflector import (
    Interrupted,
    Observed,
    ReflectorEvent,
    Resumed,
    Scope,
    SnapshotAbandoned,
    SnapshotComplete,
    SnapshotStarted,
)
from windlass.objects.names import GVR, Key
from windlass.runtime.informer import Informer

SCOPE = Scope(GVR("example.dev", "v1", "things"))


class InformerHarness:
    """An informer and the names that it reported as changed."""

    def __init__(self, keep: Literal["bytes", "digest"] = "bytes", source: Any = None) -> None:
        self.changes: list[str] = []
        self.clock = ManualClock()
        more = {"source": source} if source else {}
        self.informer = Informer(
            None,  # type: ignore[arg-type]
            SCOPE,
            on_change=lambda key: self.changes.append(key.name),
            keep=keep,
            clock=self.clock,
            **more,
        )

    def feed(self, *items: ReflectorEvent) -> list[str]:
        """Apply the events; return the changes they caused."""
        self.changes.clear()
        for item in items:
            self.informer.apply(item)
        return list(self.changes)

    @property
    def names(self) -> set[str]:
        return {key.name for key in self.informer.keys()}  # noqa: SIM118 - no mapping


def snapshot(*items: Observed) -> tuple[ReflectorEvent, ...]:
    """A complete snapshot."""
    return (SnapshotStarted(), *items, SnapshotComplete("9", len(items), "watchlist"))


def initial(name: str, version: int = 1) -> Observed:
    """An object of a snapshot."""
    return observed(name, version, initial=True)


def test_the_first_snapshot_fills_the_cache() -> None:
    """Every object is reported once, and the cache is synced at the end, not before."""
    harness = InformerHarness()
    assert harness.feed(SnapshotStarted(), initial("a"), initial("b")) == ["a", "b"]
    assert not harness.informer.synced.is_set()
    assert harness.feed(SnapshotComplete("9", 2, "list")) == []
    assert harness.informer.synced.is_set()
    assert harness.names == {"a", "b"}
    assert len(harness.informer) == 2


@pytest.mark.parametrize("keep", ["bytes", "digest"])
def test_changes_are_reported_once_per_version(keep: Literal["bytes", "digest"]) -> None:
    """A repeated version is one change; so is a delete; deleting an unknown object is none."""
    harness = InformerHarness(keep)
    harness.feed(*snapshot(initial("a")))
    assert harness.feed(observed("a", 1, change="MODIFIED")) == []
    assert harness.feed(observed("a", 2, change="MODIFIED"), observed("a", 2)) == ["a"]
    assert harness.feed(observed("a", 3, change="DELETED"), observed("a", 3, change="DELETED")) == [
        "a"
    ]
    assert harness.feed(observed("x", 1, change="DELETED")) == []
    assert harness.names == set()
    assert harness.informer.version == 3


def test_a_terminating_object_is_known_until_its_name_is_reused() -> None:
    """A deletionTimestamp outlives the object: events that it caused may arrive later."""
    harness, key = InformerHarness("digest"), Key("", "a")
    live = {"metadata": {"name": "a", "uid": "1", "resourceVersion": "1"}}
    terminating = {"metadata": {**live["metadata"], "resourceVersion": "2"}}
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    recreated = {"metadata": {"name": "a", "uid": "2", "resourceVersion": "4"}}
    seen = []
    for type_, obj in (("ADDED", live), ("MODIFIED", terminating), ("DELETED", terminating)):
        harness.feed(Observed(type_, json.dumps(obj).encode(), initial=False))  # type: ignore[arg-type]
        seen.append(harness.informer.is_terminating(key))
    harness.feed(Observed("ADDED", json.dumps(recreated).encode(), initial=False))
    assert [*seen, harness.informer.is_terminating(key)] == [False, True, True, False]


def test_bytes_are_kept_unchanged() -> None:
    """The cache returns the bytes of the newest version, or None."""
    harness = InformerHarness()
    newest = observed("a", 2, spec={"x": 1})
    harness.feed(observed("a", 1), newest)
    assert harness.informer.get(Key("ns", "a")) == newest.object
    assert harness.informer.get(Key("ns", "b")) is None


def test_digests_are_sixteen_bytes() -> None:
    """With `keep="digest"` the object itself is not stored."""
    harness = InformerHarness("digest")
    harness.feed(observed("a", 1, spec={"x": "y" * 5000}))
    digest = harness.informer.get(Key("ns", "a"))
    assert digest is not None
    assert len(digest) == 16
    harness.feed(observed("a", 2))
    assert harness.informer.get(Key("ns", "a")) != digest


def test_a_complete_snapshot_removes_missing_objects() -> None:
    """Missing objects are reported as changed, unchanged ones are not."""
    harness = InformerHarness()
    harness.feed(*snapshot(initial("a"), initial("b"), initial("c")))
    assert harness.feed(*snapshot(initial("a"), initial("c", 2), initial("d"))) == ["c", "d", "b"]
    assert harness.names == {"a", "c", "d"}


def test_removal_is_one_step() -> None:
    """The callback for the first missing object already finds none of the others."""
    harness = InformerHarness()
    harness.feed(*snapshot(initial("a"), initial("b"), initial("c")))
    sizes: list[int] = []
    harness.informer._on_change = lambda _: sizes.append(len(harness.informer))
    harness.feed(*snapshot(initial("a")))
    assert sizes == [1, 1]


def test_an_abandoned_snapshot_removes_nothing() -> None:
    """Observed objects are kept; nothing is concluded about the rest."""
    harness = InformerHarness()
    harness.feed(*snapshot(initial("a"), initial("b")))
    items = (SnapshotStarted(), initial("b", 2), initial("c"), SnapshotAbandoned("broke"))
    assert harness.feed(*items) == ["b", "c"]
    assert harness.names == {"a", "b", "c"}
    assert harness.feed(*snapshot(initial("c"))) == ["a", "b"]


def test_an_abandoned_first_snapshot_is_not_synced() -> None:
    """A partial cache never counts as synced."""
    harness = InformerHarness()
    harness.feed(SnapshotStarted(), initial("a"), SnapshotAbandoned("broke"))
    assert not harness.informer.synced.is_set()


def test_a_delete_within_a_snapshot_counts() -> None:
    """An object that is added and deleted within the snapshot is absent."""
    harness = InformerHarness()
    harness.feed(
        SnapshotStarted(),
        initial("a"),
        observed("a", 2, change="DELETED", initial=True),
        SnapshotComplete("9", 0, "watchlist"),
    )
    assert harness.names == set()


def test_a_recreated_object_is_a_change() -> None:
    """Another uid with the same name and version is another object."""
    harness = InformerHarness()
    harness.feed(*snapshot(initial("a")))
    assert harness.feed(observed("a", 1, uid="other")) == ["a"]


def test_an_unreadable_object_is_skipped() -> None:
    """It is counted, and its snapshot concludes no deletions."""
    harness = InformerHarness()
    harness.feed(*snapshot(initial("a"), initial("b")))
    poison = Observed("ADDED", b"not json", True)
    assert harness.feed(*snapshot(poison, initial("c"))) == ["c"]
    assert harness.names == {"a", "b", "c"}
    assert harness.informer.unreadable == 1
    assert harness.feed(*snapshot(initial("c"))) == ["a", "b"]


@pytest.mark.parametrize("end", [(Resumed(),), snapshot(initial("a"))], ids=["resumed", "snapshot"])
def test_an_interruption_removes_nothing(end: tuple[ReflectorEvent, ...]) -> None:
    """The cache stays the same until the watch resumes, and no change is reported."""
    harness = InformerHarness()
    harness.feed(*snapshot(initial("a")))
    broken = (Interrupted("expired", "gone", 1.0), SnapshotStarted(), SnapshotAbandoned("broke"))
    assert harness.feed(Interrupted("error", "reset", 1.0), *broken, *end) == []
    assert harness.names == {"a"}


@pytest.mark.looptime
async def test_run_consumes_and_closes_its_source() -> None:
    """Also when it is canceled."""
    closed = asyncio.Event()

    async def source(*_: Any, **__: Any) -> AsyncGenerator[ReflectorEvent, None]:
        try:
            for item in snapshot(*(initial(str(n)) for n in range(1000))):
                yield item
            await asyncio.Event().wait()
        finally:
            closed.set()

    harness = InformerHarness(source=source)
    running = asyncio.create_task(harness.informer.run())
    await asyncio.wait_for(harness.informer.synced.wait(), 5)
    assert len(harness.changes) == 1000
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert closed.is_set()


async def test_a_long_snapshot_yields_to_other_tasks() -> None:
    """Events that need no waiting do not block the loop."""

    async def source(*_: Any, **__: Any) -> AsyncGenerator[ReflectorEvent, None]:
        for number in range(1024):
            yield initial(str(number))

    harness = InformerHarness(source=source)
    seen: list[int] = []

    async def other_task() -> None:
        while len(harness.informer) < 1024:
            seen.append(len(harness.informer))
            await asyncio.sleep(0)

    await asyncio.gather(harness.informer.run(), other_task())
    assert len(seen) >= 3
