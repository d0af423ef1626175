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


class Told:
    """An informer and the names it told as changed."""

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
        """The changes that these items made."""
        self.changes.clear()
        for item in items:
            self.informer.apply(item)
        return list(self.changes)

    @property
    def names(self) -> set[str]:
        return {key.name for key in self.informer.keys()}  # noqa: SIM118 - no mapping


def snapshot(*items: Observed) -> tuple[ReflectorEvent, ...]:
    """A complete one."""
    return (SnapshotStarted(), *items, SnapshotComplete("9", len(items), "watchlist"))


def initial(name: str, version: int = 1) -> Observed:
    """An object of a snapshot."""
    return observed(name, version, initial=True)


def test_the_first_snapshot_fills_the_cache() -> None:
    """Every object is told once, and the cache is synced at the end, not before."""
    told = Told()
    assert told.feed(SnapshotStarted(), initial("a"), initial("b")) == ["a", "b"]
    assert not told.informer.synced.is_set()
    assert told.feed(SnapshotComplete("9", 2, "list")) == []
    assert told.informer.synced.is_set()
    assert told.names == {"a", "b"}
    assert len(told.informer) == 2


@pytest.mark.parametrize("keep", ["bytes", "digest"])
def test_changes_are_told_once_per_version(keep: Literal["bytes", "digest"]) -> None:
    """A version seen twice is one change; a delete is one; deleting the unknown is none."""
    told = Told(keep)
    told.feed(*snapshot(initial("a")))
    assert told.feed(observed("a", 1, change="MODIFIED")) == []
    assert told.feed(observed("a", 2, change="MODIFIED"), observed("a", 2)) == ["a"]
    assert told.feed(observed("a", 3, change="DELETED"), observed("a", 3, change="DELETED")) == [
        "a"
    ]
    assert told.feed(observed("x", 1, change="DELETED")) == []
    assert told.names == set()
    assert told.informer.version == 3


def test_who_was_seen_leaving_is_known_until_the_name_lives_again() -> None:
    """A deletionTimestamp outlives the object: what happened because of it may come later."""
    told, key = Told("digest"), Key("", "a")
    living = {"metadata": {"name": "a", "uid": "1", "resourceVersion": "1"}}
    leaving = {"metadata": {**living["metadata"], "resourceVersion": "2"}}
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    again = {"metadata": {"name": "a", "uid": "2", "resourceVersion": "4"}}
    seen = []
    for type_, obj in (("ADDED", living), ("MODIFIED", leaving), ("DELETED", leaving)):
        told.feed(Observed(type_, json.dumps(obj).encode(), initial=False))  # type: ignore[arg-type]
        seen.append(told.informer.is_terminating(key))
    told.feed(Observed("ADDED", json.dumps(again).encode(), initial=False))
    assert [*seen, told.informer.is_terminating(key)] == [False, True, True, False]


def test_bytes_are_kept_as_they_came() -> None:
    """The cache hands out the bytes of the newest version, or nothing."""
    told = Told()
    newest = observed("a", 2, spec={"x": 1})
    told.feed(observed("a", 1), newest)
    assert told.informer.get(Key("ns", "a")) == newest.object
    assert told.informer.get(Key("ns", "b")) is None


def test_digests_are_sixteen_bytes() -> None:
    """Where only digests are kept, the object itself is not."""
    told = Told("digest")
    told.feed(observed("a", 1, spec={"x": "y" * 5000}))
    mark = told.informer.get(Key("ns", "a"))
    assert mark is not None
    assert len(mark) == 16
    told.feed(observed("a", 2))
    assert told.informer.get(Key("ns", "a")) != mark


def test_a_complete_snapshot_removes_what_is_missing() -> None:
    """Missing objects are told as changed, unchanged ones are not."""
    told = Told()
    told.feed(*snapshot(initial("a"), initial("b"), initial("c")))
    assert told.feed(*snapshot(initial("a"), initial("c", 2), initial("d"))) == ["c", "d", "b"]
    assert told.names == {"a", "c", "d"}


def test_removal_is_one_step() -> None:
    """Whoever is told of the first missing object sees none of the others."""
    told = Told()
    told.feed(*snapshot(initial("a"), initial("b"), initial("c")))
    sizes: list[int] = []
    told.informer._on_change = lambda _: sizes.append(len(told.informer))
    told.feed(*snapshot(initial("a")))
    assert sizes == [1, 1]


def test_an_abandoned_snapshot_removes_nothing() -> None:
    """What was observed counts, what was not observed is not concluded."""
    told = Told()
    told.feed(*snapshot(initial("a"), initial("b")))
    items = (SnapshotStarted(), initial("b", 2), initial("c"), SnapshotAbandoned("broke"))
    assert told.feed(*items) == ["b", "c"]
    assert told.names == {"a", "b", "c"}
    assert told.feed(*snapshot(initial("c"))) == ["a", "b"]


def test_an_abandoned_first_snapshot_is_not_synced() -> None:
    """A partial cache is never called whole."""
    told = Told()
    told.feed(SnapshotStarted(), initial("a"), SnapshotAbandoned("broke"))
    assert not told.informer.synced.is_set()


def test_a_delete_within_a_snapshot_counts() -> None:
    """An object that arrives and goes within the snapshot is gone."""
    told = Told()
    told.feed(
        SnapshotStarted(),
        initial("a"),
        observed("a", 2, change="DELETED", initial=True),
        SnapshotComplete("9", 0, "watchlist"),
    )
    assert told.names == set()


def test_an_object_made_anew_is_a_change() -> None:
    """Another uid under the same name and version text is another object."""
    told = Told()
    told.feed(*snapshot(initial("a")))
    assert told.feed(observed("a", 1, uid="other")) == ["a"]


def test_an_unreadable_object_harms_nobody() -> None:
    """It is counted and skipped, and its snapshot concludes no absence."""
    told = Told()
    told.feed(*snapshot(initial("a"), initial("b")))
    poison = Observed("ADDED", b"not json", True)
    assert told.feed(*snapshot(poison, initial("c"))) == ["c"]
    assert told.names == {"a", "b", "c"}
    assert told.informer.unreadable == 1
    assert told.feed(*snapshot(initial("c"))) == ["a", "b"]


@pytest.mark.parametrize("end", [(Resumed(),), snapshot(initial("a"))], ids=["resumed", "snapshot"])
def test_an_interruption_takes_nothing_away(end: tuple[ReflectorEvent, ...]) -> None:
    """The cache stays as it is until it follows again, and tells nobody."""
    told = Told()
    told.feed(*snapshot(initial("a")))
    broken = (Interrupted("expired", "gone", 1.0), SnapshotStarted(), SnapshotAbandoned("broke"))
    assert told.feed(Interrupted("error", "reset", 1.0), *broken, *end) == []
    assert told.names == {"a"}


async def test_run_takes_everything_and_closes_its_source() -> None:
    """The informer consumes its source and leaves it closed, also when cancelled."""
    closed = asyncio.Event()

    async def source(*_: Any, **__: Any) -> AsyncGenerator[ReflectorEvent, None]:
        try:
            for item in snapshot(*(initial(str(n)) for n in range(1000))):
                yield item
            await asyncio.Event().wait()
        finally:
            closed.set()

    told = Told(source=source)
    running = asyncio.create_task(told.informer.run())
    await asyncio.wait_for(told.informer.synced.wait(), 5)
    assert len(told.changes) == 1000
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert closed.is_set()


async def test_a_long_snapshot_lets_others_run() -> None:
    """Items that need no waiting do not hold the loop."""

    async def source(*_: Any, **__: Any) -> AsyncGenerator[ReflectorEvent, None]:
        for number in range(1024):
            yield initial(str(number))

    told = Told(source=source)
    seen: list[int] = []

    async def onlooker() -> None:
        while len(told.informer) < 1024:
            seen.append(len(told.informer))
            await asyncio.sleep(0)

    await asyncio.gather(told.informer.run(), onlooker())
    assert len(seen) >= 3
