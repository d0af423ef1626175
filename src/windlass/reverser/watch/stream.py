"""Watches one scope and turns its events into file updates.

| Event | Then |
|---|---|
| snapshot starts | nothing is dropped yet; live objects are collected |
| object in a snapshot | offered where its digest is new to the stream or the destination |
| snapshot complete | objects not listed are dropped; every destination gets a scope snapshot |
| snapshot abandoned | nothing is concluded from what was missing; a gap until one is complete |
| refused | a gap until the stream goes on |
| digest equal | the resourceVersion moves on, nothing else happens |
| digest differs | offered to every destination that covers it |
| becomes noise or controller-owned | the file goes, without an author: the object lives on |
| ceases to be noise or controller-owned | as if its digest differed |
| deletionTimestamp, or deleted | the file goes; attributed once, at the first sign |
| cannot be read | counts as live, its file is kept, the others go on |
| cannot be read, and deleted | the file goes all the same |

The tracked resourceVersion moves with every event, because the next admission record
will name exactly that version.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import aclosing
from datetime import datetime
from typing import Protocol

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
from windlass.objects import yaml_emitter
from windlass.objects.names import GVR, Identity, Key
from windlass.reverser.attribution.record_join import Observation
from windlass.reverser.content import file_paths
from windlass.reverser.content.clean_object import CleanObject, ObjectReader, UnreadableLiveObject
from windlass.reverser.file_operation import Operation
from windlass.reverser.publish.file_update import FileUpdate, ScopeSnapshot
from windlass.reverser.publish.folder import Folder
from windlass.reverser.selection.routes import Route
from windlass.reverser.watch.tracker import ObjectTracker, SnapshotProgress, TrackedObject
from windlass.telemetry.reasons import SkipReason


class StreamHost(Protocol):
    """Where its objects go, and who hears of what it sees."""

    def routes(self, gvr: GVR, namespace: str) -> tuple[Route, ...]: ...

    def destinations_covering(
        self, scope: Scope
    ) -> tuple[tuple[Key, str, frozenset[Operation]], ...]: ...

    def folder(self, destination: Key) -> Folder | None: ...

    def is_backpressured(self, scope: Scope) -> bool: ...

    def add_update(self, destination: Key, arrival: FileUpdate) -> None: ...

    def add_snapshot(self, destination: Key, sweep: ScopeSnapshot) -> None: ...

    def count_skip(self, identity: Identity | None, reason: SkipReason) -> None: ...

    def report_unreadable(self, destination: Key, identity: Identity, why: str) -> None: ...

    def count_event(self, kind: str) -> None: ...

    def stream_changed(self, stream: Stream) -> None: ...


_log = structlog.get_logger(__name__)

_YIELD_SECONDS = 0.005
_PAUSE_SECONDS = 0.01
_MAX_WAIT_SECONDS = 30.0
"""A writer may be stuck; what comes in then costs memory until it sheds."""

_LARGE_BYTES = 64 << 10
"""Above this an object is read and emitted in a thread: it would hold up the loop."""


class Stream:
    """One scope, followed until cancelled; shared by every destination that covers it."""

    def __init__(
        self,
        scope: Scope,
        *,
        kind: str,
        connection: Connection,
        settings: ReflectorSettings,
        object_reader: ObjectReader,
        host: StreamHost,
        clock: Clock,
    ) -> None:
        self.scope = scope
        self.kind = kind
        self.state = "starting"
        self.message = ""
        self.gap = ""
        """Why what is known may be incomplete, although a snapshot was complete once."""
        self.restarts: dict[str, int] = defaultdict(int)
        self.synced: set[Key] = set()
        self.snapshot_seconds: float | None = None
        self.tracker = ObjectTracker()
        self._connection = connection
        self._settings = settings
        self._object_reader = object_reader
        self._host = host
        self._clock = clock
        self._snapshot: SnapshotProgress | None = None
        self._needs_snapshot = False
        self._inconclusive = ""
        """Why the last snapshot proves nothing although all of it came."""
        self._unreadable: set[tuple[Key, Key]] = set()

    async def run(self) -> None:
        """Follow the scope; ends only by cancellation."""
        self._snapshot, self._needs_snapshot = None, True
        items = reflect(self._connection, self.scope, self._settings, clock=self._clock)
        breath = self._clock.monotonic()
        async with aclosing(items):
            async for item in items:
                if self._clock.monotonic() - breath > _YIELD_SECONDS:
                    await self._yield_to_others()
                    breath = self._clock.monotonic()
                try:
                    await self._handle(item)
                except Exception:
                    # One object must never stop the others; its file stays as it is.
                    _log.exception("object not understood", scope=str(self.scope))
                    self._keep_file(UnreadableLiveObject(None, "an error of ours; see the log"))

    async def _yield_to_others(self) -> None:
        """Let others run, the lease first; a snapshot also waits for those who write it."""
        await asyncio.sleep(0)
        patience = self._clock.monotonic() + _MAX_WAIT_SECONDS
        while self._snapshot is not None and self._host.is_backpressured(self.scope):
            if self._clock.monotonic() > patience:
                return
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _handle(self, item: ReflectorEvent) -> None:
        match item:
            case Observed():
                await self._handle_event(item)
            case SnapshotStarted():
                self._snapshot = SnapshotProgress(self._clock.monotonic())
                self.tracker.begin_snapshot()
                self._set_state("seeding" if not self.synced else "restarting")
            case SnapshotComplete():
                self._complete_snapshot()
            case SnapshotAbandoned():
                self._snapshot, self.gap = None, item.cause
                self.tracker.abandon_snapshot()
                self._set_state("incomplete", item.cause)
            case Resumed():
                self.gap = self._inconclusive
                if self._inconclusive:
                    self._set_state("incomplete", self._inconclusive)
                else:
                    self._set_state("synced" if self.synced else "restarting")
            case Interrupted():
                self._handle_interrupt(item)

    def _handle_interrupt(self, item: Interrupted) -> None:
        self.restarts[item.reason] += 1
        refused = item.reason == "forbidden"
        if refused or self._needs_snapshot:
            # An ending that costs the version is no gap yet: the snapshot may come at once.
            self.gap = item.message
        self._needs_snapshot = self._needs_snapshot or not item.resumes
        self._set_state("forbidden" if refused else "restarting", item.message)

    def _set_state(self, state: str, message: str = "") -> None:
        if (state, message) != (self.state, self.message):
            self.state, self.message = state, message
            self._host.stream_changed(self)

    async def _handle_event(self, item: Observed) -> None:
        self._host.count_event(item.type)
        if item.initial:
            self._host.count_event("scanned")
        sighting = await self._read(item.object)
        if isinstance(sighting, UnreadableLiveObject):
            if item.type == "DELETED" and sighting.identity is not None:
                self._handle_unreadable_deletion(sighting.identity)
            else:
                self._keep_file(sighting)
            return
        self._clear_unreadable(sighting.identity.key)
        if item.type == "DELETED" or sighting.is_terminating:
            self._handle_deletion(sighting, gone=item.type == "DELETED")
        else:
            await self._handle_live(sighting, len(item.object))

    def _clear_unreadable(self, key: Key) -> None:
        if self._unreadable:
            self._unreadable = {pair for pair in self._unreadable if pair[0] != key}

    async def _read(self, raw: bytes) -> CleanObject | UnreadableLiveObject:
        if len(raw) > _LARGE_BYTES:
            return await asyncio.to_thread(self._object_reader.read, self.scope.gvr, self.kind, raw)
        return self._object_reader.read(self.scope.gvr, self.kind, raw)

    def _keep_file(self, blurred: UnreadableLiveObject) -> None:
        self._host.count_skip(blurred.identity, SkipReason.UNDECODABLE)
        self._report_unreadable(blurred)
        if self._snapshot is None:
            return
        self._snapshot.items += 1
        if blurred.identity is None:
            self._snapshot.has_nameless = True
            return
        self.tracker.mark_seen(blurred.identity.key)
        for route in self._host.routes(self.scope.gvr, blurred.identity.namespace):
            self._mark_live(route.destination, blurred.identity)

    def _report_unreadable(self, blurred: UnreadableLiveObject) -> None:
        """Say on each destination once that an object cannot be read, until it can."""
        if blurred.identity is None:
            return
        for route in self._host.routes(self.scope.gvr, blurred.identity.namespace):
            pair = (blurred.identity.key, route.destination)
            if pair not in self._unreadable:
                self._unreadable.add(pair)
                self._host.report_unreadable(route.destination, blurred.identity, blurred.reason)

    def _mark_live(self, destination: Key, identity: Identity) -> str | None:
        """Note that the file of `identity` is alive; its path in that destination."""
        folder = self._host.folder(destination)
        if folder is None:
            return None
        path = file_paths.file_path(folder.target.base_folder, identity)
        if self._snapshot is not None:
            self._snapshot.live_paths[destination].add(path)
        return path

    async def _handle_live(self, sighting: CleanObject, size: int) -> None:
        key = sighting.identity.key
        known = self.tracker.get(key)
        if known is not None and known.uid != sighting.uid:
            known = None
        initial = self._snapshot is not None
        if self._snapshot is not None:
            self._snapshot.items += 1
        same = known is not None and known.matches(sighting)
        operation: Operation = "UPDATE" if known is not None else "CREATE"
        observation = None if initial else self._observation(sighting, known, operation)
        self.tracker.put(key, TrackedObject.from_object(sighting))
        if same and not initial:
            self._host.count_event("duplicate")
            return
        await self._offer_to_routes(sighting, observation, same, size)

    def _observation(
        self, sighting: CleanObject, known: TrackedObject | None, operation: Operation
    ) -> Observation:
        return Observation(
            uid=sighting.uid,
            operation=operation,
            previous_resource_version=known.resource_version if known is not None else None,
            previous_replicas=known.replicas if known is not None else None,
            identity=sighting.identity,
            content=sighting.digest,
            replicas=sighting.replicas,
            received=self._clock.monotonic(),
            bypasses_admission=sighting.bypasses_admission(
                operation, was_bound=known is not None and known.is_bound
            ),
        )

    async def _offer_to_routes(
        self, sighting: CleanObject, observation: Observation | None, same: bool, size: int
    ) -> None:
        received = self._clock.now()
        emitted: dict[bytes, bytes] = {}
        for route in self._host.routes(self.scope.gvr, sighting.identity.namespace):
            folder = self._host.folder(route.destination)
            if folder is None:
                continue
            reason = sighting.skip_reason(include_owned=route.include_owned)
            if reason is not None:
                self._host.count_skip(sighting.identity, reason)
                self._exclude(folder, sighting, route, received)
                continue
            path = self._mark_live(route.destination, sighting.identity)
            if path is None or (same and route.destination in self.synced):
                continue
            content = await self._content(sighting, folder.target.salt, emitted, size)
            self._host.add_update(
                route.destination,
                FileUpdate(
                    identity=sighting.identity,
                    kind=self.kind,
                    path=path,
                    blob=objects.blob_id(content),
                    content=content,
                    size=len(content),
                    mask=route.mask_for(owned=sighting.is_controller_owned),
                    observation=observation,
                    received=received,
                    redacted=self._object_reader.redacts(self.scope.gvr),
                ),
            )

    async def _content(
        self, sighting: CleanObject, salt: bytes, emitted: dict[bytes, bytes], size: int
    ) -> bytes:
        """The canonical bytes; those of sensitive objects depend on the destination's salt."""
        key = salt if self._object_reader.redacts(self.scope.gvr) else b""
        if key not in emitted:
            obj = self._object_reader.redact(sighting.content, sighting.identity, salt)
            if size > _LARGE_BYTES:
                emitted[key] = await asyncio.to_thread(yaml_emitter.emit, obj)
            else:
                emitted[key] = yaml_emitter.emit(obj)
        return emitted[key]

    def _exclude(
        self, folder: Folder, sighting: CleanObject, route: Route, received: datetime
    ) -> None:
        """The object lives but is not mirrored: nobody deleted it, so nobody is credited."""
        why = sighting.exclusion_text
        path = self._remove_file(folder, sighting.identity, route, received, reason=why)
        if self._snapshot is not None:
            self._snapshot.excluded[route.destination][path] = why

    def _handle_deletion(self, sighting: CleanObject, *, gone: bool) -> None:
        key = sighting.identity.key
        known = self.tracker.get(key)
        if self._snapshot is not None:
            self._snapshot.items += 1
        credited = known is not None and known.uid == sighting.uid and not known.digest
        observation = self._observation(sighting, known, "DELETE")
        if gone:
            self.tracker.forget(key)
        else:
            self.tracker.put(key, TrackedObject.from_object(sighting, credited=True))
        if credited:
            self._host.count_skip(sighting.identity, SkipReason.TERMINATING)
        else:
            self._remove_everywhere(sighting.identity, observation)

    def _handle_unreadable_deletion(self, identity: Identity) -> None:
        """An object that cannot be read was deleted; what was tracked of it tells who it was."""
        self._clear_unreadable(identity.key)
        known = self.tracker.get(identity.key)
        self.tracker.forget(identity.key)
        if self._snapshot is not None:
            self._snapshot.items += 1
        observation = Observation(
            uid=known.uid if known is not None else "",
            operation="DELETE",
            previous_resource_version=known.resource_version if known is not None else None,
            identity=identity,
            content=None,
            received=self._clock.monotonic(),
        )
        self._remove_everywhere(identity, observation)

    def _remove_everywhere(self, identity: Identity, observation: Observation) -> None:
        received = self._clock.now()
        for route in self._host.routes(self.scope.gvr, identity.namespace):
            folder = self._host.folder(route.destination)
            if folder is not None:
                self._remove_file(folder, identity, route, received, observation=observation)

    def _remove_file(
        self,
        folder: Folder,
        identity: Identity,
        route: Route,
        received: datetime,
        *,
        observation: Observation | None = None,
        reason: str = "",
    ) -> str:
        """The file of `identity` should not exist; only a file known as ours is removed here."""
        path = file_paths.file_path(folder.target.base_folder, identity)
        folder.refused.pop(path, None)
        if path in folder.own_paths:
            arrival = FileUpdate.removal(
                identity, self.kind, path, route.mask, received, observation, reason
            )
            self._host.add_update(route.destination, arrival)
        return path

    def _complete_snapshot(self) -> None:
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is None:
            return
        self._needs_snapshot = False
        if snapshot.has_nameless:
            self.tracker.abandon_snapshot()
            self.gap = self._inconclusive = "an object without a readable name was listed"
            self._set_state("incomplete", self.gap)
            return
        missed = self.tracker.end_snapshot()
        self.gap = self._inconclusive = ""
        self.snapshot_seconds = self._clock.monotonic() - snapshot.started
        for row in self._host.destinations_covering(self.scope):
            destination = row[0]
            self._host.add_snapshot(
                destination, snapshot.scope_snapshot(self.scope, self.kind, row, missed)
            )
            self.synced.add(destination)
        self._set_state("synced")
