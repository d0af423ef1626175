"""File updates and snapshots that one stream makes of watch events; no server, no Git."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from tests.support.reverser.destination_folder import DESTINATION, empty_folder
from windlass.base.clock import SystemClock
from windlass.git.store import Entry
from windlass.kube.connection import Connection
from windlass.kube.reflector import (
    Interrupted,
    Observed,
    ReflectorEvent,
    Resumed,
    Scope,
    SnapshotComplete,
    SnapshotStarted,
)
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.names import GVR, Identity, Key
from windlass.reverser.attribution.attributor import Attributor
from windlass.reverser.content.clean_object import ObjectReader
from windlass.reverser.event_queue import EventQueue
from windlass.reverser.file_operation import OPERATIONS
from windlass.reverser.metrics import MirrorMetrics
from windlass.reverser.publish.file_update import FileUpdate, ScopeSnapshot
from windlass.reverser.publish.folder import Folder
from windlass.reverser.publish.worker_pool import WorkerPool
from windlass.reverser.selection.routes import RoutePlan
from windlass.reverser.selection.rules import RuleResolution, SelectedScope
from windlass.reverser.watch.stream import Stream
from windlass.runtime.outcome import OutcomeEvent
from windlass.telemetry.reasons import SkipReason
from windlass.telemetry.reverser import ReverserMetrics

MAPS = GVR("", "v1", "configmaps")
PATH = "base/v1/configmaps/ns/one.yaml"
OWNER = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": True}


@dataclass
class FakeHost:
    """One open destination that takes everything: pool, worker, attributor and event queue."""

    folder: Folder = field(default_factory=empty_folder)
    updates: list[FileUpdate] = field(default_factory=list)
    snapshots: list[ScopeSnapshot] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def open_folder(self, destination: Key) -> tuple[Any, Folder]:
        return self, self.folder

    def worker(self, destination: Key) -> None:
        return None

    def add_update(self, folder: Folder, update: FileUpdate) -> None:
        self.updates.append(update)
        folder.add_update(update, 0.0)

    def add_snapshot(self, folder: Folder, snapshot: ScopeSnapshot) -> None:
        self.snapshots.append(snapshot)

    def record_write(self, destination: Key, identity: Identity) -> None:
        pass

    def add(self, destination: Key, event: OutcomeEvent, transition: str) -> None:
        self.unreadable.append(transition.rpartition("/")[2])


class FakeMetrics(MirrorMetrics):
    """Metrics whose skips and events a test can read."""

    def __init__(self) -> None:
        super().__init__(ReverserMetrics(CollectorRegistry()))
        self.skips: list[str] = []
        self.counts: list[str] = []

    def count_skip(self, identity: Identity | None, reason: SkipReason) -> None:
        self.skips.append(reason)

    def count_event(self, kind: str) -> None:
        self.counts.append(kind)


@dataclass
class Feed:
    """A stream and the events it is fed with."""

    host: FakeHost
    metrics: FakeMetrics
    stream: Stream

    async def handle(self, *items: ReflectorEvent) -> None:
        for item in items:
            await self.stream._handle(item)

    async def event(self, type_: str, raw: bytes, *, initial: bool = False) -> None:
        await self.handle(Observed(cast("Any", type_), raw, initial))

    @property
    def has_file(self) -> list[bool]:
        """Whether each update asks for a file."""
        return [update.blob is not None for update in self.host.updates]


@pytest.fixture
async def feed() -> Feed:
    """A stream with a complete snapshot of nothing."""
    host, metrics = FakeHost(), FakeMetrics()
    stream = Stream(
        Scope(MAPS, "ns"),
        kind="ConfigMap",
        connection=cast("Connection", None),
        settings=ReflectorSettings(),
        object_reader=ObjectReader(b"", frozenset()),
        workers=cast("WorkerPool", host),
        attributor=cast("Attributor", host),
        metrics=metrics,
        event_queue=cast("EventQueue", host),
        on_change=lambda _: None,
        clock=SystemClock(),
    )
    mask = frozenset(OPERATIONS)
    scopes = (SelectedScope(MAPS, "ns", mask, False),)
    stream.plan = RoutePlan([(DESTINATION, RuleResolution(scopes, ()))])
    stream.coverage = {DESTINATION: frozenset({("ns", mask, mask)})}
    fed = Feed(host, metrics, stream)
    await fed.handle(SnapshotStarted(), SnapshotComplete("1", 0, "watchlist"))
    return fed


def _map(name: str, version: str, **metadata: Any) -> bytes:
    known = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": version}
    return json.dumps({"metadata": known | metadata, "data": {"a": "1"}}).encode()


async def test_an_object_that_becomes_its_controllers_loses_its_file(feed: Feed) -> None:
    """SAN-9: an owner changes nothing that is mirrored, and still decides whether it is."""
    await feed.event("ADDED", _map("one", "1"))
    await feed.event("MODIFIED", _map("one", "2", ownerReferences=[OWNER]))
    await feed.event("MODIFIED", _map("one", "3"))
    assert feed.has_file == [True, False, True]
    assert feed.metrics.skips == ["ControllerOwned"]
    removal = feed.host.updates[1]
    assert removal.observation is None, "it was not deleted, so there is no author"
    assert removal.reason == "owned by a controller"


async def test_an_object_that_becomes_noise_loses_its_file(feed: Feed) -> None:
    """SAN-8: the annotation of a leader record is cleaned away, so the digest does not show it."""
    mark = {"control-plane.alpha.kubernetes.io/leader": "{}"}
    await feed.event("ADDED", _map("one", "1"))
    await feed.event("MODIFIED", _map("one", "2", annotations=mark))
    assert feed.has_file == [True, False]
    removal = feed.host.updates[1]
    assert (removal.observation, removal.reason) == (None, "leader election record")
    await feed.event("MODIFIED", _map("one", "3", annotations=mark))
    assert feed.metrics.counts[-1] == "duplicate"


async def test_a_snapshot_names_the_reason_of_an_excluded_object(feed: Feed) -> None:
    """A later removal of its file can name the reason."""
    await feed.handle(SnapshotStarted())
    await feed.event("ADDED", _map("one", "1", ownerReferences=[OWNER]), initial=True)
    await feed.handle(SnapshotComplete("1", 1, "watchlist"))
    (why,) = feed.host.snapshots[-1].excluded.values()
    assert why == "owned by a controller"


async def test_the_deletion_of_an_unreadable_object_removes_its_file(feed: Feed) -> None:
    """ING-11, ING-13: its file is kept while it lives, and goes when it is deleted."""
    await feed.event("ADDED", _map("one", "1"))
    broken = _map("one", "2").replace(b'"a": "1"', b'"a": 123456789012345678901234')
    await feed.event("MODIFIED", broken)
    assert feed.has_file == [True]
    assert feed.host.unreadable == ["one"]
    await feed.event("DELETED", broken)
    assert feed.has_file == [True, False]
    gone = feed.host.updates[-1].observation
    assert gone is not None
    assert (gone.uid, gone.previous_resource_version) == ("uid-one", "1")
    await feed.event("ADDED", broken)
    assert feed.host.unreadable == ["one", "one"]


async def test_a_tracked_object_missing_in_the_snapshot_is_named(feed: Feed) -> None:
    """SNP-3: the file of an object that this process tracked need not be read."""
    await feed.event("ADDED", _map("one", "1"))
    await feed.handle(SnapshotStarted(), SnapshotComplete("9", 0, "watchlist"))
    last = feed.host.snapshots[-1]
    assert last.missing == (Identity(MAPS, "ns", "one"),)
    assert last.is_empty


async def test_a_snapshot_with_a_nameless_object_proves_nothing_later_either(feed: Feed) -> None:
    """SNP-1: resuming after it does not make it complete; the next whole one does."""
    await feed.event("ADDED", _map("one", "1"))
    snapshots = len(feed.host.snapshots)
    await feed.handle(SnapshotStarted())
    await feed.event("ADDED", b'{"metadata":{}}', initial=True)
    await feed.handle(SnapshotComplete("9", 1, "watchlist"))
    await feed.handle(Interrupted("closed", "over", 0.0), Resumed())
    assert (feed.stream.state, bool(feed.stream.gap)) == ("incomplete", True)
    assert len(feed.host.snapshots) == snapshots
    assert len(feed.stream.tracker) == 1
    await feed.handle(SnapshotStarted())
    await feed.event("ADDED", _map("one", "1"), initial=True)
    await feed.handle(SnapshotComplete("10", 1, "watchlist"))
    assert (feed.stream.state, feed.stream.gap) == ("synced", "")


async def test_a_foreign_file_does_not_go_with_the_object(feed: Feed) -> None:
    """SNP-10: a path that was refused is not ours to empty when its object is deleted."""
    feed.host.folder.load({PATH: Entry(0o100644, "f" * 40)})
    await feed.event("ADDED", _map("one", "1"))
    feed.host.folder.refuse(PATH, Identity(MAPS, "ns", "one"), "PathOccupied")
    await feed.event("DELETED", _map("one", "2"))
    assert feed.has_file == [True]
    assert feed.host.folder.refused == {}
