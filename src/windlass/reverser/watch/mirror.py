"""The mirror: keeps the watch streams in step with the route plan and feeds the branch workers.

Rules and open destinations become a route plan, the plan becomes streams, streams deliver file
updates to the folders of their destinations:

    rules + open folders -> RoutePlan -> Stream per scope -> FileUpdate -> Folder

A change of the plan touches only what it changes: scopes that appear start, scopes that disappear
stop, a scope that gains or changes a destination takes a new snapshot, all others run on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec
import structlog

from windlass.base.clock import Clock
from windlass.git.format import objects
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import ApiError
from windlass.kube.reflector import Scope
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects import yaml_emitter
from windlass.objects.names import GVR, Identity, Key
from windlass.reverser import events
from windlass.reverser.content import file_paths
from windlass.reverser.content.clean_object import ObjectReader, UnreadableLiveObject
from windlass.reverser.file_operation import Operation
from windlass.reverser.metrics import MirrorMetrics
from windlass.reverser.publish import orphans
from windlass.reverser.publish.file_update import FileUpdate, ScopeSnapshot
from windlass.reverser.publish.folder import Folder, WriteTarget
from windlass.reverser.publish.worker_pool import WorkerPool
from windlass.reverser.selection.routes import Route, RoutePlan
from windlass.reverser.selection.rules import RuleResolution
from windlass.reverser.selection.type_catalog import TypeCatalog
from windlass.reverser.watch.stream import Stream
from windlass.runtime.outcome import OutcomeEvent
from windlass.telemetry.reasons import SkipReason

_log = structlog.get_logger(__name__)

_DEBOUNCE_SECONDS = 0.05

ScopeCoverage = frozenset[tuple[str, frozenset[Operation], frozenset[Operation]]]


@dataclass(slots=True)
class _RunningStream:
    """A running stream, and for which destinations its last snapshot was taken."""

    stream: Stream
    task: asyncio.Task[None]
    coverage: dict[Key, ScopeCoverage]


class Mirror:
    """Everything that runs between the rules and Git."""

    def __init__(
        self,
        connection: Connection,
        *,
        object_reader: ObjectReader,
        follow_settings: ReflectorSettings,
        clock: Clock,
        tally: MirrorMetrics,
        workers: Callable[[Mirror], WorkerPool],
        on_destination: Callable[[Key], None],
        on_rules: Callable[[], None],
        on_write: Callable[[Key, Identity], None] = lambda *_: None,
        tell: Callable[[Key, OutcomeEvent, str], None] = lambda *_: None,
    ) -> None:
        self.plan = RoutePlan()
        self._connection = connection
        self._api = Api(connection)
        self._object_reader = object_reader
        self._follow_settings = follow_settings
        self._clock = clock
        self._metrics = tally
        self._on_destination = on_destination
        self._on_rules = on_rules
        self._on_write = on_write
        self._record_event = tell
        self._resolutions: dict[tuple[str, Key], tuple[Key, RuleResolution]] = {}
        self._kinds: dict[GVR, str] = {}
        self._streams: dict[Scope, _RunningStream] = {}
        self._open: frozenset[Key] = frozenset()
        self._plan_changed = asyncio.Event()
        self.workers = workers(self)

    # ---- what the controllers say

    def set_catalog(self, catalogue: TypeCatalog) -> None:
        """Learn the kinds of the served types."""
        self._kinds = {one.gvr: one.kind for one in catalogue.types}

    def start_writing(self, target: WriteTarget) -> None:
        """A destination is in order; its folder opens by itself."""
        found = self.workers.find(target.key)
        if found is not None and found[1].target.location != target.location:
            remote, branch, folder = found[1].target.location
            notice = events.destination_moved(branch, folder, remote)
            self._record_event(target.key, notice, f"{remote} {branch} {folder}")
        if self.workers.assign(target):
            self._forget_snapshots(target.key)
            self.replan()

    def stop_writing(self, destination: Key) -> None:
        """A destination is out of order or gone; its files stay."""
        if self.workers.find(destination) is not None:
            self.workers.remove(destination)
            self._forget_snapshots(destination)
            self.replan()

    def select(self, kind: str, rule: Key, destination: Key, resolution: RuleResolution) -> None:
        """What a rule selects, and where it goes."""
        if self._resolutions.get((kind, rule)) != (destination, resolution):
            self._resolutions[kind, rule] = (destination, resolution)
            self.replan()

    def deselect(self, kind: str, rule: Key) -> None:
        if self._resolutions.pop((kind, rule), None) is not None:
            self.replan()

    def replan(self) -> None:
        """Something changed that the plan depends on."""
        self._plan_changed.set()

    def destination_changed(self, key: Key) -> None:
        """A worker has news of a destination; a folder that opened or closed is planned anew."""
        if (self.folder(key) is not None) != (key in self._open):
            self.replan()
        self._on_destination(key)

    # ---- the loop

    async def run(self) -> None:
        """Keep streams in step with the plan until cancelled."""
        try:
            while True:
                await self._plan_changed.wait()
                await asyncio.sleep(_DEBOUNCE_SECONDS)
                self._plan_changed.clear()
                await self._apply_plan()
        finally:
            await self._stop(list(self._streams))

    async def _apply_plan(self) -> None:
        self._open = frozenset(
            folder.target.key
            for worker in self.workers
            for _, folder in worker.folders()
            if folder.is_open
        )
        self.plan = RoutePlan(
            (destination, resolution)
            for destination, resolution in self._resolutions.values()
            if destination in self._open
        )
        wanted = {Scope(gvr, namespace) for gvr, namespace in self.plan.scopes()}
        await self._stop([scope for scope in self._streams if scope not in wanted])
        for scope in wanted:
            coverage = self._coverage(scope)
            followed = self._streams.get(scope)
            if followed is None:
                self._start(scope, coverage)
            elif followed.coverage != coverage:
                await self._restart_stream(followed, coverage)
        self._on_rules()

    def _coverage(self, scope: Scope) -> dict[Key, ScopeCoverage]:
        """Which parts of a scope each destination needs, and how."""
        found: dict[Key, ScopeCoverage] = {}
        for destination in self.plan.destinations():
            rows = frozenset(
                (namespace, route.mask, route.owned_mask)
                for gvr, namespace in self.plan.scopes_for(destination)
                if gvr == scope.gvr and scope.namespace in ("", namespace)
                for route in self.plan.routes(gvr, namespace)
                if route.destination == destination
            )
            if rows:
                found[destination] = rows
        return found

    def _start(self, scope: Scope, coverage: dict[Key, ScopeCoverage]) -> None:
        stream = Stream(
            scope,
            kind=self._kinds.get(scope.gvr, ""),
            connection=self._connection,
            settings=self._follow_settings,
            object_reader=self._object_reader,
            host=self,
            clock=self._clock,
        )
        self._streams[scope] = _RunningStream(stream, self._run_stream(stream), coverage)

    def _run_stream(self, stream: Stream) -> asyncio.Task[None]:
        task = asyncio.create_task(stream.run(), name=f"stream {stream.scope}")
        task.add_done_callback(_log_crash)
        return task

    async def _restart_stream(
        self, followed: _RunningStream, coverage: dict[Key, ScopeCoverage]
    ) -> None:
        """The stream gained or changed a destination: one new snapshot serves it."""
        gained = {key for key, rows in coverage.items() if followed.coverage.get(key) != rows}
        followed.coverage = coverage
        if gained:
            await _cancel_task(followed.task)
            followed.stream.synced -= gained
            followed.task = self._run_stream(followed.stream)

    async def _stop(self, scopes: list[Scope]) -> None:
        for scope in scopes:
            await _cancel_task(self._streams.pop(scope).task)

    def resnapshot(self, destination: Key) -> None:
        """Git may lack what was written there: every scope of it takes a new snapshot."""
        self._forget_snapshots(destination)
        self.replan()

    def _forget_snapshots(self, destination: Key) -> None:
        """Its folder is another one now: every scope of it must be seen again."""
        for followed in self._streams.values():
            followed.coverage.pop(destination, None)
            followed.stream.synced.discard(destination)

    # ---- what streams ask (desk.Desk)

    def routes(self, gvr: GVR, namespace: str) -> tuple[Route, ...]:
        return self.plan.routes(gvr, namespace)

    def destinations_covering(
        self, scope: Scope
    ) -> tuple[tuple[Key, str, frozenset[Operation]], ...]:
        followed = self._streams.get(scope)
        if followed is None:
            return ()
        return tuple(
            (destination, namespace, mask)
            for destination, rows in followed.coverage.items()
            for namespace, mask, _ in rows
        )

    def folder(self, destination: Key) -> Folder | None:
        found = self.workers.find(destination)
        return found[1] if found is not None and found[1].is_open else None

    def is_backpressured(self, scope: Scope) -> bool:
        """Whether a snapshot should wait for a writer; one in trouble is not waited for."""
        found = [self.workers.find(destination) for destination in self._destinations_of(scope)]
        return any(
            pair[1].is_open and pair[0].error is None and pair[1].window.is_crowded
            for pair in found
            if pair is not None
        )

    def add_update(self, destination: Key, arrival: FileUpdate) -> None:
        if arrival.observation is not None:
            self._on_write(destination, arrival.identity)
        worker, folder = self.workers.worker(destination), self.folder(destination)
        if worker is not None and folder is not None:
            worker.add_update(folder, arrival)

    def add_snapshot(self, destination: Key, sweep: ScopeSnapshot) -> None:
        worker, folder = self.workers.worker(destination), self.folder(destination)
        if worker is not None and folder is not None:
            worker.add_snapshot(folder, sweep)

    def count_skip(self, identity: Identity | None, reason: SkipReason) -> None:
        self._metrics.count_skip(identity, reason)

    def report_unreadable(self, destination: Key, identity: Identity, why: str) -> None:
        self._record_event(destination, events.object_undecodable(identity, why), str(identity))

    def count_event(self, kind: str) -> None:
        self._metrics.count_event(kind)

    def stream_changed(self, stream: Stream) -> None:
        self._metrics.stream_changed(stream)
        for destination in self._destinations_of(stream.scope):
            if stream.state == "forbidden":
                notice = events.type_forbidden(str(stream.scope), stream.message)
                self._record_event(destination, notice, str(stream.scope))
            self._on_destination(destination)
            worker = self.workers.worker(destination)
            if worker is not None:
                worker.wake()

    def _destinations_of(self, scope: Scope) -> Mapping[Key, ScopeCoverage]:
        followed = self._streams.get(scope)
        return dict(followed.coverage) if followed is not None else {}

    # ---- what workers ask

    def is_seeding(self, destination: Key) -> bool:
        """Whether a snapshot may still bring more; what it finds belongs into one commit."""
        return any(
            destination in followed.coverage
            and followed.stream.state in ("starting", "seeding", "restarting", "incomplete")
            for followed in self._streams.values()
        )

    def streams(self, destination: Key) -> tuple[Stream, ...]:
        """The streams that feed a destination."""
        return tuple(
            followed.stream
            for followed in self._streams.values()
            if destination in followed.coverage
        )

    def unsynced_scopes(self, destination: Key) -> tuple[str, ...]:
        """The selected scopes of which no complete snapshot is at hand, and why."""
        wanted = {
            (one.gvr, one.namespace)
            for key, resolution in self._resolutions.values()
            if key == destination
            for one in resolution.scopes
        }
        return tuple(
            sorted(
                f"{gvr} ({self._why_unsynced(gvr, namespace, destination)})"
                for gvr, namespace in wanted
                if self._why_unsynced(gvr, namespace, destination)
            )
        )

    def _why_unsynced(self, gvr: GVR, namespace: str, destination: Key) -> str:
        scopes = (Scope(gvr, namespace), Scope(gvr))
        streams = [self._streams[scope].stream for scope in scopes if scope in self._streams]
        whole = [stream for stream in streams if destination in stream.synced]
        if whole:
            return "" if any(not stream.gap for stream in whole) else whole[0].gap
        return next((stream.message or stream.state for stream in streams), "starting")

    def all_streams(self) -> tuple[Stream, ...]:
        return tuple(followed.stream for followed in self._streams.values())

    def stream_states(self) -> dict[tuple[str, str], str]:
        """How each stream is doing, by type and namespace."""
        return {
            (str(scope.gvr), scope.namespace): followed.stream.state
            for scope, followed in self._streams.items()
        }

    def count_files(self, destination: Key, gvr: GVR, namespace: str) -> int:
        """How many files of a type the folder of a destination has there."""
        found = self.workers.find(destination)
        if found is None:
            return 0
        folder = found[1]
        return folder.count_files(
            file_paths.scope_folder(folder.target.base_folder, gvr, namespace)
        )

    async def is_deleted(self, identity: Identity) -> bool:
        """Whether the API server says in so many words that an object does not exist."""
        return await orphans.confirm_deleted(self._api, identity)

    async def reread(self, target: WriteTarget, arrival: FileUpdate) -> FileUpdate | None:
        """The present state of an object whose content had to be let go; None = leave its file."""
        identity = arrival.identity
        routes = self.routes(identity.gvr, identity.namespace)
        route = next((one for one in routes if one.destination == target.key), None)
        if route is None:
            return None
        gone = replace(arrival, blob=None, content=None, size=0)
        try:
            obj = await self._api.get(identity.gvr, identity.name, identity.namespace)
        except ApiError as error:
            if orphans.is_deletion_proof(error, identity):
                return gone
            self.resnapshot(target.key)
            return None
        sighting = self._object_reader.read(identity.gvr, arrival.kind, msgspec.json.encode(obj))
        if isinstance(sighting, UnreadableLiveObject):
            self.count_skip(identity, SkipReason.UNDECODABLE)
            return None
        if sighting.is_terminating:
            return gone
        if sighting.skip_reason(include_owned=route.include_owned):
            return replace(gone, reason=sighting.exclusion_text)
        content = yaml_emitter.emit(
            self._object_reader.redact(sighting.content, identity, target.salt)
        )
        return replace(arrival, blob=objects.blob_id(content), content=content, size=len(content))


async def _cancel_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _log_crash(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("stream crashed", stream=task.get_name(), exc_info=task.exception())
