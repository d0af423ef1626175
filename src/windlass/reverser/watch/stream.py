"""Watches one scope and turns its events into file updates and scope snapshots.

`Mirror` starts one `Stream` per scope of its route plan. Errors never cross objects: one that
cannot be handled keeps its file, and the stream goes on.

| Event | Then |
|---|---|
| snapshot starts | nothing is dropped yet; live objects are collected |
| object in a snapshot | offered where its digest is new to the stream or the destination |
| snapshot complete | objects not listed are dropped; every destination gets a scope snapshot |
| snapshot abandoned | nothing is concluded from what was missing; a gap until one is complete |
| watch forbidden | a gap until the stream resumes |
| digest equal | the resourceVersion moves on, nothing else happens |
| digest differs | offered to every destination that covers it |
| becomes noise or controller-owned | file removed without an author: the object lives on |
| ceases to be noise or controller-owned | as if its digest differed |
| deletionTimestamp, or deleted | file removed; attributed once, at the first event |
| cannot be read | counts as live, its file is kept, the others go on |
| cannot be read, and deleted | file removed all the same |

The tracked resourceVersion moves with every event, because the next admission record
will name exactly that version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

import structlog

from windlass.base.clock import Clock
from windlass.git.format import objects
from windlass.kube.connection import Connection
from windlass.kube.reflector import (
    Interrupted,
    Observed,
    ReflectorEvent,
    Resumed,
    Scope,
    SnapshotAbandoned,
    SnapshotComplete,
    SnapshotStarted,
    reflect,
)
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.names import Identity, Key
from windlass.reverser import events
from windlass.reverser.attribution.attributor import Attributor
from windlass.reverser.attribution.record_join import Observation
from windlass.reverser.content import file_paths
from windlass.reverser.content.clean_object import CleanObject, ObjectReader, UnreadableLiveObject
from windlass.reverser.event_queue import EventQueue
from windlass.reverser.file_operation import Operation
from windlass.reverser.metrics import MirrorMetrics
from windlass.reverser.publish.branch_worker import BranchWorker
from windlass.reverser.publish.file_update import FileUpdate
from windlass.reverser.publish.folder import Folder
from windlass.reverser.publish.worker_pool import WorkerPool
from windlass.reverser.selection.routes import Route, RoutePlan
from windlass.reverser.watch.tracker import ObjectTracker, SnapshotProgress, TrackedObject
from windlass.telemetry.reasons import SkipReason

_log = structlog.get_logger(__name__)

ScopeCoverage = frozenset[tuple[str, frozenset[Operation], frozenset[Operation]]]
"""What one destination needs of a scope: namespace, mask, mask of controller-owned objects."""

_YIELD_SECONDS = 0.005
"""How long a stream may occupy the event loop before it yields."""

_PAUSE_SECONDS = 0.01
"""How often a paused snapshot checks whether it may go on."""

_MAX_WAIT_SECONDS = 30.0
"""The longest pause: a branch worker may be stuck. What arrives then costs memory until the
worker drops pending content."""

_LARGE_BYTES = 64 << 10
"""Above this size an object is read and emitted in a thread, because it would block the loop."""


@dataclass(frozen=True, slots=True)
class OpenRoute:
    """A route of an object whose destination has an open folder: looked up once per event."""

    route: Route
    folder: Folder
    worker: BranchWorker

    @property
    def destination(self) -> Key:
        return self.route.destination

    def path(self, identity: Identity) -> str:
        """The path of the object's file, from the root of the repository."""
        return file_paths.file_path(self.folder.target.base_folder, identity)


class Stream:
    """The watch of one scope until cancelled, shared by every destination that covers it."""

    def __init__(
        self,
        scope: Scope,
        *,
        kind: str,
        connection: Connection,
        settings: ReflectorSettings,
        object_reader: ObjectReader,
        workers: WorkerPool,
        attributor: Attributor,
        metrics: MirrorMetrics,
        event_queue: EventQueue,
        on_change: Callable[[Key], None],
        clock: Clock,
    ) -> None:
        self.scope = scope
        self.kind = kind
        # starting, seeding, synced, restarting, incomplete or forbidden; a rule's status shows it.
        self.state = "starting"
        # Why the stream is in that state, for users; empty if there is nothing to explain.
        self.message = ""
        # Why the tracked state may be incomplete since the last complete snapshot; "" = no gap.
        self.gap = ""
        # The route plan; the mirror replaces it in all streams at once.
        self.plan = RoutePlan()
        # What each destination needs of the scope since its last snapshot; set by the mirror.
        self.coverage: dict[Key, ScopeCoverage] = {}
        # Destinations that got a complete snapshot; the mirror removes those that need another.
        self.synced: set[Key] = set()
        # Last known state of every object of the scope; survives restarts of the stream.
        self.tracker = ObjectTracker()
        self._connection = connection
        self._settings = settings
        self._object_reader = object_reader
        self._workers = workers
        self._attributor = attributor
        self._metrics = metrics
        self._event_queue = event_queue
        # Called with each destination whose progress changed.
        self._on_change = on_change
        self._clock = clock
        # The running snapshot; None while changes are watched.
        self._snapshot: SnapshotProgress | None = None
        # Whether the next attempt starts with a snapshot instead of a resume.
        self._needs_snapshot = False
        # Why the last snapshot proves no deletion although it ran to its end; "" = it does.
        self._inconclusive = ""
        # (object, destination) pairs with a reported decoding error, so each is reported once.
        self._unreadable: set[tuple[Key, Key]] = set()

    async def run(self) -> None:
        """Watch the scope, beginning with a snapshot; ends only by cancellation."""
        self._snapshot, self._needs_snapshot = None, True
        events = reflect(self._connection, self.scope, self._settings, clock=self._clock)
        last_yield = self._clock.monotonic()
        async with aclosing(events):
            async for event in events:
                if self._clock.monotonic() - last_yield > _YIELD_SECONDS:
                    await self._yield_to_others()
                    last_yield = self._clock.monotonic()
                try:
                    await self._handle(event)
                except Exception:
                    # One object must never stop the others; its file is kept.
                    _log.exception(
                        "internal error while handling an object; its file is kept",
                        scope=str(self.scope),
                    )
                    self._keep_file(UnreadableLiveObject(None, "internal error; see the log"))

    async def _yield_to_others(self) -> None:
        """Yield to other tasks, the lease above all; a snapshot also waits for its writers."""
        await asyncio.sleep(0)
        deadline = self._clock.monotonic() + _MAX_WAIT_SECONDS
        while self._snapshot is not None and any(map(self._workers.is_crowded, self.coverage)):
            if self._clock.monotonic() > deadline:
                return
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _handle(self, event: ReflectorEvent) -> None:
        match event:
            case Observed():
                await self._handle_object(event)
            case SnapshotStarted():
                self._snapshot = SnapshotProgress(self._clock.monotonic())
                self.tracker.begin_snapshot()
                self._set_state("seeding" if not self.synced else "restarting")
            case SnapshotComplete():
                self._complete_snapshot()
            case SnapshotAbandoned():
                self._snapshot, self.gap = None, event.cause
                self.tracker.abandon_snapshot()
                self._set_state("incomplete", event.cause)
            case Resumed():
                # A resume loses nothing, but completes no snapshot either.
                self.gap = self._inconclusive
                if self._inconclusive:
                    self._set_state("incomplete", self._inconclusive)
                else:
                    self._set_state("synced" if self.synced else "restarting")
            case Interrupted():
                self._handle_interrupt(event)

    def _handle_interrupt(self, interrupted: Interrupted) -> None:
        self._metrics.count_restart(interrupted.reason)
        forbidden = interrupted.reason == "forbidden"
        if forbidden or self._needs_snapshot:
            # The first interrupt that loses the resourceVersion is not a gap yet: the snapshot
            # that follows may complete at once.
            self.gap = interrupted.message
        self._needs_snapshot = self._needs_snapshot or not interrupted.resumes
        self._set_state("forbidden" if forbidden else "restarting", interrupted.message)

    def _set_state(self, state: str, message: str = "") -> None:
        if (state, message) == (self.state, self.message):
            return
        self.state, self.message = state, message
        self._metrics.stream_changed(self.scope, state, message)
        for destination in tuple(self.coverage):
            if state == "forbidden":
                event = events.type_forbidden(str(self.scope), message)
                self._event_queue.add(destination, event, str(self.scope))
            self._on_change(destination)
            if worker := self._workers.worker(destination):
                # Its window may have waited for the end of a snapshot.
                worker.wake()

    def _open_routes(self, namespace: str) -> Iterator[OpenRoute]:
        """The destinations of objects in `namespace` whose folder is open."""
        for route in self.plan.routes(self.scope.gvr, namespace):
            if opened := self._workers.open_folder(route.destination):
                worker, folder = opened
                yield OpenRoute(route, folder, worker)

    def _add_update(self, route: OpenRoute, update: FileUpdate) -> None:
        if update.observation is not None:
            self._attributor.record_write(route.destination, update.identity)
        route.worker.add_update(route.folder, update)

    async def _handle_object(self, event: Observed) -> None:
        self._metrics.count_event(event.type)
        if event.initial:
            self._metrics.count_event("scanned")
        obj = await self._read(event.object)
        if isinstance(obj, UnreadableLiveObject):
            if event.type == "DELETED" and obj.identity is not None:
                self._handle_unreadable_deletion(obj.identity)
            else:
                self._keep_file(obj)
            return
        self._clear_unreadable(obj.identity.key)
        if event.type == "DELETED" or obj.is_terminating:
            self._handle_deletion(obj, gone=event.type == "DELETED")
        else:
            await self._handle_live(obj, len(event.object))

    def _clear_unreadable(self, key: Key) -> None:
        if self._unreadable:
            self._unreadable = {pair for pair in self._unreadable if pair[0] != key}

    async def _read(self, raw: bytes) -> CleanObject | UnreadableLiveObject:
        if len(raw) > _LARGE_BYTES:
            return await asyncio.to_thread(self._object_reader.read, self.scope.gvr, self.kind, raw)
        return self._object_reader.read(self.scope.gvr, self.kind, raw)

    def _keep_file(self, unreadable: UnreadableLiveObject) -> None:
        """Count an object that cannot be read as live, so that its file stays."""
        identity = unreadable.identity
        self._metrics.count_skip(identity, SkipReason.UNDECODABLE)
        if self._snapshot is not None:
            self._snapshot.items += 1
            self._snapshot.has_nameless |= identity is None
        if identity is None:
            return
        self.tracker.mark_listed(identity.key)
        for route in self._open_routes(identity.namespace):
            self._mark_live(route, identity)
            self._report_unreadable(route.destination, identity, unreadable.reason)

    def _report_unreadable(self, destination: Key, identity: Identity, reason: str) -> None:
        """Record an Event once per object and destination, until it can be read again."""
        if (identity.key, destination) not in self._unreadable:
            self._unreadable.add((identity.key, destination))
            event = events.object_undecodable(identity, reason)
            self._event_queue.add(destination, event, str(identity))

    def _mark_live(self, route: OpenRoute, identity: Identity) -> str:
        """Record the file of `identity` as live; its path."""
        path = route.path(identity)
        if self._snapshot is not None:
            self._snapshot.live_paths[route.destination].add(path)
        return path

    async def _handle_live(self, obj: CleanObject, size: int) -> None:
        key = obj.identity.key
        tracked = self.tracker.get(key)
        if tracked is not None and tracked.uid != obj.uid:
            # Same name, another object: it was recreated.
            tracked = None
        in_snapshot = self._snapshot is not None
        if self._snapshot is not None:
            self._snapshot.items += 1
        unchanged = tracked is not None and tracked.matches(obj)
        operation: Operation = "UPDATE" if tracked is not None else "CREATE"
        # A snapshot shows the state but not the request that caused it, so it has no author.
        observation = None if in_snapshot else self._observation(obj, tracked, operation)
        self.tracker.put(key, TrackedObject.from_object(obj))
        if unchanged and not in_snapshot:
            self._metrics.count_event("duplicate")
            return
        await self._offer_to_routes(obj, observation, unchanged, size)

    def _observation(
        self, obj: CleanObject, tracked: TrackedObject | None, operation: Operation
    ) -> Observation:
        """The change as attribution needs it to find its admission record."""
        return Observation(
            uid=obj.uid,
            operation=operation,
            previous_resource_version=tracked.resource_version if tracked is not None else None,
            previous_replicas=tracked.replicas if tracked is not None else None,
            identity=obj.identity,
            content=obj.digest,
            replicas=obj.replicas,
            received=self._clock.monotonic(),
            bypasses_admission=obj.bypasses_admission(
                operation, was_bound=tracked is not None and tracked.is_bound
            ),
        )

    async def _offer_to_routes(
        self, obj: CleanObject, observation: Observation | None, unchanged: bool, size: int
    ) -> None:
        """Queue the object's file in each destination; `size` is that of its raw JSON."""
        received = self._clock.now()
        emitted: dict[bytes, bytes] = {}
        for route in self._open_routes(obj.identity.namespace):
            reason = obj.skip_reason(include_owned=route.route.include_owned)
            if reason is not None:
                self._metrics.count_skip(obj.identity, reason)
                self._exclude(route, obj, received)
                continue
            path = self._mark_live(route, obj.identity)
            # A destination that joined later needs the object although it did not change.
            if unchanged and route.destination in self.synced:
                continue
            content = await self._content(obj, route.folder.target.salt, emitted, size)
            self._add_update(
                route,
                FileUpdate(
                    identity=obj.identity,
                    kind=self.kind,
                    path=path,
                    blob=objects.blob_id(content),
                    content=content,
                    size=len(content),
                    mask=route.route.mask_for(owned=obj.is_controller_owned),
                    observation=observation,
                    received=received,
                    redacted=self._object_reader.redacts(self.scope.gvr),
                ),
            )

    async def _content(
        self, obj: CleanObject, salt: bytes, emitted: dict[bytes, bytes], size: int
    ) -> bytes:
        """The canonical YAML; that of sensitive objects depends on the destination's salt.

        `emitted` caches it by salt, so that destinations share what does not depend on it.
        """
        key = salt if self._object_reader.redacts(self.scope.gvr) else b""
        if key not in emitted:
            if size > _LARGE_BYTES:
                emitted[key] = await asyncio.to_thread(self._object_reader.file_content, obj, salt)
            else:
                emitted[key] = self._object_reader.file_content(obj, salt)
        return emitted[key]

    def _exclude(self, route: OpenRoute, obj: CleanObject, received: datetime) -> None:
        """Remove the file of a live object that is not mirrored; no delete, hence no author."""
        reason = obj.exclusion_text
        path = self._remove_file(route, obj.identity, received, reason=reason)
        if self._snapshot is not None:
            self._snapshot.excluded[route.destination][path] = reason

    def _handle_deletion(self, obj: CleanObject, *, gone: bool) -> None:
        """Remove the files of an object that is terminating, or `gone` for good."""
        key = obj.identity.key
        tracked = self.tracker.get(key)
        if self._snapshot is not None:
            self._snapshot.items += 1
        # An empty digest: its files were removed when the deletionTimestamp appeared.
        already_removed = tracked is not None and tracked.uid == obj.uid and not tracked.digest
        observation = self._observation(obj, tracked, "DELETE")
        if gone:
            self.tracker.forget(key)
        else:
            self.tracker.put(key, TrackedObject.from_object(obj, deletion_attributed=True))
        if already_removed:
            self._metrics.count_skip(obj.identity, SkipReason.TERMINATING)
        else:
            self._remove_everywhere(obj.identity, observation)

    def _handle_unreadable_deletion(self, identity: Identity) -> None:
        """Remove the files of a deleted object that cannot be read, by its tracked state."""
        self._clear_unreadable(identity.key)
        tracked = self.tracker.get(identity.key)
        self.tracker.forget(identity.key)
        if self._snapshot is not None:
            self._snapshot.items += 1
        observation = Observation(
            uid=tracked.uid if tracked is not None else "",
            operation="DELETE",
            previous_resource_version=tracked.resource_version if tracked is not None else None,
            identity=identity,
            content=None,
            received=self._clock.monotonic(),
        )
        self._remove_everywhere(identity, observation)

    def _remove_everywhere(self, identity: Identity, observation: Observation) -> None:
        received = self._clock.now()
        for route in self._open_routes(identity.namespace):
            self._remove_file(route, identity, received, observation=observation)

    def _remove_file(
        self,
        route: OpenRoute,
        identity: Identity,
        received: datetime,
        *,
        observation: Observation | None = None,
        reason: str = "",
    ) -> str:
        """Queue the removal of the file of `identity`; its path.

        Only a file that this process knows as its own is removed here.
        """
        path = route.path(identity)
        route.folder.refused.pop(path, None)
        if path in route.folder.own_paths:
            update = FileUpdate.removal(
                identity, self.kind, path, route.route.mask, received, observation, reason
            )
            self._add_update(route, update)
        return path

    def _complete_snapshot(self) -> None:
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is None:
            return
        self._needs_snapshot = False
        if snapshot.has_nameless:
            # It may be any of the tracked objects, so a missing one proves no deletion.
            self.tracker.abandon_snapshot()
            self.gap = self._inconclusive = "an object without a readable name was listed"
            self._set_state("incomplete", self.gap)
            return
        missing = self.tracker.end_snapshot()
        self.gap = self._inconclusive = ""
        self._metrics.observe_snapshot(self._clock.monotonic() - snapshot.started)
        for destination, rows in self.coverage.items():
            if opened := self._workers.open_folder(destination):
                worker, folder = opened
                for namespace, mask, _ in rows:
                    proof = snapshot.scope_snapshot(
                        self.scope.gvr, self.kind, destination, namespace, mask, missing
                    )
                    worker.add_snapshot(folder, proof)
            self.synced.add(destination)
        self._set_state("synced")
