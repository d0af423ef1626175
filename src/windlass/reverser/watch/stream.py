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

    def covered(self, scope: Scope) -> tuple[tuple[Key, str, frozenset[Operation]], ...]: ...

    def folder(self, destination: Key) -> Folder | None: ...

    def crowded(self, scope: Scope) -> bool: ...

    def offer(self, destination: Key, arrival: FileUpdate) -> None: ...

    def sweep(self, destination: Key, sweep: ScopeSnapshot) -> None: ...

    def skipped(self, identity: Identity | None, reason: SkipReason) -> None: ...

    def undecodable(self, destination: Key, identity: Identity, why: str) -> None: ...

    def counted(self, kind: str) -> None: ...

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
        lens: ObjectReader,
        desk: StreamHost,
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
        self.tracking = ObjectTracker()
        self._connection = connection
        self._settings = settings
        self._lens = lens
        self._desk = desk
        self._clock = clock
        self._snapshot: SnapshotProgress | None = None
        self._owes_snapshot = False
        self._doubt = ""
        """Why the last snapshot proves nothing although all of it came."""
        self._blurred: set[tuple[Key, Key]] = set()

    async def run(self) -> None:
        """Follow the scope; ends only by cancellation."""
        self._snapshot, self._owes_snapshot = None, True
        items = reflect(self._connection, self.scope, self._settings, clock=self._clock)
        breath = self._clock.monotonic()
        async with aclosing(items):
            async for item in items:
                if self._clock.monotonic() - breath > _YIELD_SECONDS:
                    await self._breathe()
                    breath = self._clock.monotonic()
                try:
                    await self._take(item)
                except Exception:
                    # One object must never stop the others; its file stays as it is.
                    _log.exception("object not understood", scope=str(self.scope))
                    self._keep_as_is(UnreadableLiveObject(None, "an error of ours; see the log"))

    async def _breathe(self) -> None:
        """Let others run, the lease first; a snapshot also waits for those who write it."""
        await asyncio.sleep(0)
        patience = self._clock.monotonic() + _MAX_WAIT_SECONDS
        while self._snapshot is not None and self._desk.crowded(self.scope):
            if self._clock.monotonic() > patience:
                return
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _take(self, item: ReflectorEvent) -> None:
        match item:
            case Observed():
                await self._observe(item)
            case SnapshotStarted():
                self._snapshot = SnapshotProgress(self._clock.monotonic())
                self.tracking.begin_snapshot()
                self._enter("seeding" if not self.synced else "restarting")
            case SnapshotComplete():
                self._complete()
            case SnapshotAbandoned():
                self._snapshot, self.gap = None, item.cause
                self.tracking.abandon_snapshot()
                self._enter("incomplete", item.cause)
            case Resumed():
                self.gap = self._doubt
                if self._doubt:
                    self._enter("incomplete", self._doubt)
                else:
                    self._enter("synced" if self.synced else "restarting")
            case Interrupted():
                self._interrupt(item)

    def _interrupt(self, item: Interrupted) -> None:
        self.restarts[item.reason] += 1
        refused = item.reason == "forbidden"
        if refused or self._owes_snapshot:
            # An ending that costs the version is no gap yet: the snapshot may come at once.
            self.gap = item.message
        self._owes_snapshot = self._owes_snapshot or not item.resumes
        self._enter("forbidden" if refused else "restarting", item.message)

    def _enter(self, state: str, message: str = "") -> None:
        if (state, message) != (self.state, self.message):
            self.state, self.message = state, message
            self._desk.stream_changed(self)

    async def _observe(self, item: Observed) -> None:
        self._desk.counted(item.type)
        if item.initial:
            self._desk.counted("scanned")
        sighting = await self._look(item.object)
        if isinstance(sighting, UnreadableLiveObject):
            if item.type == "DELETED" and sighting.identity is not None:
                self._depart_unread(sighting.identity)
            else:
                self._keep_as_is(sighting)
            return
        self._understood(sighting.identity.key)
        if item.type == "DELETED" or sighting.terminating:
            self._depart(sighting, gone=item.type == "DELETED")
        else:
            await self._arrive(sighting, len(item.object))

    def _understood(self, key: Key) -> None:
        if self._blurred:
            self._blurred = {pair for pair in self._blurred if pair[0] != key}

    async def _look(self, raw: bytes) -> CleanObject | UnreadableLiveObject:
        if len(raw) > _LARGE_BYTES:
            return await asyncio.to_thread(self._lens.look, self.scope.gvr, self.kind, raw)
        return self._lens.look(self.scope.gvr, self.kind, raw)

    def _keep_as_is(self, blurred: UnreadableLiveObject) -> None:
        self._desk.skipped(blurred.identity, SkipReason.UNDECODABLE)
        self._tell_blurred(blurred)
        if self._snapshot is None:
            return
        self._snapshot.items += 1
        if blurred.identity is None:
            self._snapshot.nameless = True
            return
        self.tracking.see(blurred.identity.key)
        for route in self._desk.routes(self.scope.gvr, blurred.identity.namespace):
            self._stay(route.destination, blurred.identity)

    def _tell_blurred(self, blurred: UnreadableLiveObject) -> None:
        """Say on each destination once that an object cannot be read, until it can."""
        if blurred.identity is None:
            return
        for route in self._desk.routes(self.scope.gvr, blurred.identity.namespace):
            pair = (blurred.identity.key, route.destination)
            if pair not in self._blurred:
                self._blurred.add(pair)
                self._desk.undecodable(route.destination, blurred.identity, blurred.reason)

    def _stay(self, destination: Key, identity: Identity) -> str | None:
        """Note that the file of `identity` is alive; its path in that destination."""
        folder = self._desk.folder(destination)
        if folder is None:
            return None
        path = file_paths.file_path(folder.target.base_folder, identity)
        if self._snapshot is not None:
            self._snapshot.live[destination].add(path)
        return path

    async def _arrive(self, sighting: CleanObject, size: int) -> None:
        key = sighting.identity.key
        known = self.tracking.get(key)
        if known is not None and known.uid != sighting.uid:
            known = None
        initial = self._snapshot is not None
        if self._snapshot is not None:
            self._snapshot.items += 1
        same = known is not None and known.matches(sighting)
        operation: Operation = "UPDATE" if known is not None else "CREATE"
        observation = None if initial else self._observation(sighting, known, operation)
        self.tracking.put(key, TrackedObject.of(sighting))
        if same and not initial:
            self._desk.counted("duplicate")
            return
        await self._route(sighting, observation, same, size)

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
            bypasses=sighting.bypasses(operation, was_bound=known is not None and known.bound),
        )

    async def _route(
        self, sighting: CleanObject, observation: Observation | None, same: bool, size: int
    ) -> None:
        received = self._clock.now()
        emitted: dict[bytes, bytes] = {}
        for route in self._desk.routes(self.scope.gvr, sighting.identity.namespace):
            folder = self._desk.folder(route.destination)
            if folder is None:
                continue
            reason = sighting.unwanted(include_owned=route.include_owned)
            if reason is not None:
                self._desk.skipped(sighting.identity, reason)
                self._set_aside(folder, sighting, route, received)
                continue
            path = self._stay(route.destination, sighting.identity)
            if path is None or (same and route.destination in self.synced):
                continue
            content = await self._content(sighting, folder.target.salt, emitted, size)
            self._desk.offer(
                route.destination,
                FileUpdate(
                    identity=sighting.identity,
                    kind=self.kind,
                    path=path,
                    blob=objects.blob_id(content),
                    content=content,
                    size=len(content),
                    mask=route.mask_for(owned=sighting.controller_owned),
                    observation=observation,
                    received=received,
                    redacted=self._lens.redacts(self.scope.gvr),
                ),
            )

    async def _content(
        self, sighting: CleanObject, salt: bytes, emitted: dict[bytes, bytes], size: int
    ) -> bytes:
        """The canonical bytes; those of sensitive objects depend on the destination's salt."""
        key = salt if self._lens.redacts(self.scope.gvr) else b""
        if key not in emitted:
            obj = self._lens.protected(sighting.cleaned, sighting.identity, salt)
            if size > _LARGE_BYTES:
                emitted[key] = await asyncio.to_thread(yaml_emitter.emit, obj)
            else:
                emitted[key] = yaml_emitter.emit(obj)
        return emitted[key]

    def _set_aside(
        self, folder: Folder, sighting: CleanObject, route: Route, received: datetime
    ) -> None:
        """The object lives but is not mirrored: nobody deleted it, so nobody is credited."""
        why = sighting.aside_because
        path = self._withdraw(folder, sighting.identity, route, received, reason=why)
        if self._snapshot is not None:
            self._snapshot.aside[route.destination][path] = why

    def _depart(self, sighting: CleanObject, *, gone: bool) -> None:
        key = sighting.identity.key
        known = self.tracking.get(key)
        if self._snapshot is not None:
            self._snapshot.items += 1
        credited = known is not None and known.uid == sighting.uid and not known.digest
        observation = self._observation(sighting, known, "DELETE")
        if gone:
            self.tracking.forget(key)
        else:
            self.tracking.put(key, TrackedObject.of(sighting, credited=True))
        if credited:
            self._desk.skipped(sighting.identity, SkipReason.TERMINATING)
        else:
            self._withdraw_everywhere(sighting.identity, observation)

    def _depart_unread(self, identity: Identity) -> None:
        """An object that cannot be read was deleted; what was tracked of it tells who it was."""
        self._understood(identity.key)
        known = self.tracking.get(identity.key)
        self.tracking.forget(identity.key)
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
        self._withdraw_everywhere(identity, observation)

    def _withdraw_everywhere(self, identity: Identity, observation: Observation) -> None:
        received = self._clock.now()
        for route in self._desk.routes(self.scope.gvr, identity.namespace):
            folder = self._desk.folder(route.destination)
            if folder is not None:
                self._withdraw(folder, identity, route, received, observation=observation)

    def _withdraw(
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
        if path in folder.written:
            arrival = FileUpdate.removal(
                identity, self.kind, path, route.mask, received, observation, reason
            )
            self._desk.offer(route.destination, arrival)
        return path

    def _complete(self) -> None:
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is None:
            return
        self._owes_snapshot = False
        if snapshot.nameless:
            self.tracking.abandon_snapshot()
            self.gap = self._doubt = "an object without a readable name was listed"
            self._enter("incomplete", self.gap)
            return
        missed = self.tracking.end_snapshot()
        self.gap = self._doubt = ""
        self.snapshot_seconds = self._clock.monotonic() - snapshot.started
        for row in self._desk.covered(self.scope):
            destination = row[0]
            self._desk.sweep(destination, snapshot.sweep(self.scope, self.kind, row, missed))
            self.synced.add(destination)
        self._enter("synced")
