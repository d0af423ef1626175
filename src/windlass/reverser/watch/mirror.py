"""The mirror: keeps the watch streams in step with the route plan and feeds the branch workers.

Rules and open destinations become a route plan, the plan becomes streams, streams deliver file
updates to the folders of their destinations:

    rules + open folders -> RoutePlan -> Stream per scope -> FileUpdate -> Folder

A change of the plan touches only what it changes: scopes that appear start, scopes that disappear
stop, a scope that gains or changes a destination takes a new snapshot, all others run on.

The reconcilers call `start_writing`, `stop_writing`, `select` and `deselect`; `run` applies the
plan; the streams use it as their `StreamHost`; branch workers and status reports query it. Every
method runs on the event loop's thread.
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
"""Changes that come this close together make one new plan."""

ScopeCoverage = frozenset[tuple[str, frozenset[Operation], frozenset[Operation]]]
"""What one destination needs of a scope: namespace, mask, mask of controller-owned objects."""


@dataclass(slots=True)
class _RunningStream:
    """A running stream, and what each destination needs of it since its last snapshot."""

    stream: Stream
    task: asyncio.Task[None]
    coverage: dict[Key, ScopeCoverage]


class Mirror:
    """The streams of all selected scopes, and the branch workers that they feed."""

    def __init__(
        self,
        connection: Connection,
        *,
        object_reader: ObjectReader,
        reflector_settings: ReflectorSettings,
        clock: Clock,
        metrics: MirrorMetrics,
        workers: Callable[[Mirror], WorkerPool],
        on_destination: Callable[[Key], None],
        on_rules: Callable[[], None],
        on_write: Callable[[Key, Identity], None] = lambda *_: None,
        record_event: Callable[[Key, OutcomeEvent, str], None] = lambda *_: None,
    ) -> None:
        # The plan that the streams follow; replaced as a whole by `run`.
        self.plan = RoutePlan()
        self._connection = connection
        self._api = Api(connection)
        self._object_reader = object_reader
        self._reflector_settings = reflector_settings
        self._clock = clock
        self._metrics = metrics
        self._on_destination = on_destination
        self._on_rules = on_rules
        self._on_write = on_write
        self._record_event = record_event
        # (rule kind, rule) -> its destination and what it selects; written by the reconcilers.
        self._resolutions: dict[tuple[str, Key], tuple[Key, RuleResolution]] = {}
        # Kind of each served type, from the newest catalog.
        self._kinds: dict[GVR, str] = {}
        self._streams: dict[Scope, _RunningStream] = {}
        # Destinations whose folder was open when the plan was built; only those are planned.
        self._open: frozenset[Key] = frozenset()
        self._plan_changed = asyncio.Event()
        self.workers = workers(self)

    # ---- called by the reconcilers

    def set_catalog(self, catalog: TypeCatalog) -> None:
        """Take over the kinds of the served types."""
        self._kinds = {served.gvr: served.kind for served in catalog.types}

    def start_writing(self, target: WriteTarget) -> None:
        """Assign a valid destination to the worker of its branch, which opens its folder."""
        assigned = self.workers.find(target.key)
        if assigned is not None and assigned[1].target.location != target.location:
            remote, branch, folder = assigned[1].target.location
            event = events.destination_moved(branch, folder, remote)
            self._record_event(target.key, event, f"{remote} {branch} {folder}")
        if self.workers.assign(target):
            self._forget_snapshots(target.key)
            self.replan()

    def stop_writing(self, destination: Key) -> None:
        """Remove an invalid or deleted destination from its worker; its files stay."""
        if self.workers.find(destination) is not None:
            self.workers.remove(destination)
            self._forget_snapshots(destination)
            self.replan()

    def select(self, kind: str, rule: Key, destination: Key, resolution: RuleResolution) -> None:
        """Set what a rule selects, and for which destination."""
        if self._resolutions.get((kind, rule)) != (destination, resolution):
            self._resolutions[kind, rule] = (destination, resolution)
            self.replan()

    def deselect(self, kind: str, rule: Key) -> None:
        """Drop the selection of a rule that is deleted or broken."""
        if self._resolutions.pop((kind, rule), None) is not None:
            self.replan()

    def replan(self) -> None:
        """Have `run` build a new plan."""
        self._plan_changed.set()

    def destination_changed(self, key: Key) -> None:
        """Report a worker's change of a destination; replan if its folder opened or closed."""
        if (self.folder(key) is not None) != (key in self._open):
            self.replan()
        self._on_destination(key)

    # ---- the loop: plan, then streams

    async def run(self) -> None:
        """Build the plan after each change and adjust the streams to it, until cancelled."""
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
        desired = {Scope(gvr, namespace) for gvr, namespace in self.plan.scopes()}
        await self._stop([scope for scope in self._streams if scope not in desired])
        for scope in desired:
            coverage = self._coverage(scope)
            running = self._streams.get(scope)
            if running is None:
                self._start(scope, coverage)
            elif running.coverage != coverage:
                await self._change_coverage(running, coverage)
        self._on_rules()

    def _coverage(self, scope: Scope) -> dict[Key, ScopeCoverage]:
        """What each destination needs of a scope; destinations that need nothing are absent."""
        coverage: dict[Key, ScopeCoverage] = {}
        for destination in self.plan.destinations():
            rows = frozenset(
                (namespace, route.mask, route.owned_mask)
                for gvr, namespace in self.plan.scopes_for(destination)
                if gvr == scope.gvr and scope.namespace in ("", namespace)
                for route in self.plan.routes(gvr, namespace)
                if route.destination == destination
            )
            if rows:
                coverage[destination] = rows
        return coverage

    def _start(self, scope: Scope, coverage: dict[Key, ScopeCoverage]) -> None:
        stream = Stream(
            scope,
            kind=self._kinds.get(scope.gvr, ""),
            connection=self._connection,
            settings=self._reflector_settings,
            object_reader=self._object_reader,
            host=self,
            clock=self._clock,
        )
        self._streams[scope] = _RunningStream(stream, self._run_stream(stream), coverage)

    def _run_stream(self, stream: Stream) -> asyncio.Task[None]:
        task = asyncio.create_task(stream.run(), name=f"stream {stream.scope}")
        task.add_done_callback(_log_crash)
        return task

    async def _change_coverage(
        self, running: _RunningStream, coverage: dict[Key, ScopeCoverage]
    ) -> None:
        """Restart the stream if a destination was added or changed; one snapshot serves all."""
        changed = {key for key, rows in coverage.items() if running.coverage.get(key) != rows}
        running.coverage = coverage
        if changed:
            await _cancel_task(running.task)
            running.stream.synced -= changed
            running.task = self._run_stream(running.stream)

    async def _stop(self, scopes: list[Scope]) -> None:
        for scope in scopes:
            await _cancel_task(self._streams.pop(scope).task)

    def resnapshot(self, destination: Key) -> None:
        """Take a new snapshot of every scope of a destination: Git may lack files of it."""
        self._forget_snapshots(destination)
        self.replan()

    def _forget_snapshots(self, destination: Key) -> None:
        """Mark a destination as new to every stream; the next plan takes snapshots for it."""
        for running in self._streams.values():
            running.coverage.pop(destination, None)
            running.stream.synced.discard(destination)

    # ---- called by the streams (StreamHost)

    def routes(self, gvr: GVR, namespace: str) -> tuple[Route, ...]:
        """The destinations of objects of that type in that namespace."""
        return self.plan.routes(gvr, namespace)

    def destinations_covering(
        self, scope: Scope
    ) -> tuple[tuple[Key, str, frozenset[Operation]], ...]:
        """Destination, namespace and operation mask for each use of a snapshot of `scope`."""
        running = self._streams.get(scope)
        if running is None:
            return ()
        return tuple(
            (destination, namespace, mask)
            for destination, rows in running.coverage.items()
            for namespace, mask, _ in rows
        )

    def folder(self, destination: Key) -> Folder | None:
        """The folder of a destination; None unless it is open."""
        assigned = self.workers.find(destination)
        return assigned[1] if assigned is not None and assigned[1].is_open else None

    def is_backpressured(self, scope: Scope) -> bool:
        """Whether a snapshot should pause for a worker; one that fails is not waited for."""
        assigned = [self.workers.find(destination) for destination in self._destinations_of(scope)]
        return any(
            pair[1].is_open and pair[0].error is None and pair[1].window.is_crowded
            for pair in assigned
            if pair is not None
        )

    def add_update(self, destination: Key, update: FileUpdate) -> None:
        """Queue a file update in the open folder of a destination."""
        if update.observation is not None:
            self._on_write(destination, update.identity)
        worker, folder = self.workers.worker(destination), self.folder(destination)
        if worker is not None and folder is not None:
            worker.add_update(folder, update)

    def add_snapshot(self, destination: Key, snapshot: ScopeSnapshot) -> None:
        """Queue a scope snapshot in the open folder of a destination."""
        worker, folder = self.workers.worker(destination), self.folder(destination)
        if worker is not None and folder is not None:
            worker.add_snapshot(folder, snapshot)

    def count_skip(self, identity: Identity | None, reason: SkipReason) -> None:
        """Count an object that is not mirrored."""
        self._metrics.count_skip(identity, reason)

    def report_unreadable(self, destination: Key, identity: Identity, reason: str) -> None:
        """Record an Event on a destination: an object cannot be decoded."""
        self._record_event(destination, events.object_undecodable(identity, reason), str(identity))

    def count_event(self, kind: str) -> None:
        """Count a watch event by its type, or as `scanned` or `duplicate`."""
        self._metrics.count_event(kind)

    def stream_changed(self, stream: Stream) -> None:
        """Report a new state of `stream` to metrics, destinations and workers."""
        self._metrics.stream_changed(stream)
        for destination in self._destinations_of(stream.scope):
            if stream.state == "forbidden":
                event = events.type_forbidden(str(stream.scope), stream.message)
                self._record_event(destination, event, str(stream.scope))
            self._on_destination(destination)
            worker = self.workers.worker(destination)
            if worker is not None:
                # Its window may have waited for the end of a snapshot (`is_seeding`).
                worker.wake()

    def _destinations_of(self, scope: Scope) -> Mapping[Key, ScopeCoverage]:
        running = self._streams.get(scope)
        return dict(running.coverage) if running is not None else {}

    # ---- called by the branch workers, status reports and gauges

    def is_seeding(self, destination: Key) -> bool:
        """Whether a snapshot may still add updates, which belong into the same commit."""
        return any(
            destination in running.coverage
            and running.stream.state in ("starting", "seeding", "restarting", "incomplete")
            for running in self._streams.values()
        )

    def streams(self, destination: Key) -> tuple[Stream, ...]:
        """The streams that feed a destination."""
        return tuple(
            running.stream for running in self._streams.values() if destination in running.coverage
        )

    def unsynced_scopes(self, destination: Key) -> tuple[str, ...]:
        """The selected scopes without a complete snapshot and why, as text for the status."""
        selected = {
            (scope.gvr, scope.namespace)
            for key, resolution in self._resolutions.values()
            if key == destination
            for scope in resolution.scopes
        }
        return tuple(
            sorted(
                f"{gvr} ({self._why_unsynced(gvr, namespace, destination)})"
                for gvr, namespace in selected
                if self._why_unsynced(gvr, namespace, destination)
            )
        )

    def _why_unsynced(self, gvr: GVR, namespace: str, destination: Key) -> str:
        """Why a scope has no complete snapshot for a destination; empty if it has one."""
        # A stream over all namespaces replaces those of single ones, so either may serve it.
        scopes = (Scope(gvr, namespace), Scope(gvr))
        streams = [self._streams[scope].stream for scope in scopes if scope in self._streams]
        synced = [stream for stream in streams if destination in stream.synced]
        if synced:
            return "" if any(not stream.gap for stream in synced) else synced[0].gap
        return next((stream.message or stream.state for stream in streams), "starting")

    def all_streams(self) -> tuple[Stream, ...]:
        """Every running stream."""
        return tuple(running.stream for running in self._streams.values())

    def stream_states(self) -> dict[tuple[str, str], str]:
        """The state of each stream, by type and namespace."""
        return {
            (str(scope.gvr), scope.namespace): running.stream.state
            for scope, running in self._streams.items()
        }

    def count_files(self, destination: Key, gvr: GVR, namespace: str) -> int:
        """How many files of a type, in one namespace or all, the folder of a destination has."""
        assigned = self.workers.find(destination)
        if assigned is None:
            return 0
        folder = assigned[1]
        return folder.count_files(
            file_paths.scope_folder(folder.target.base_folder, gvr, namespace)
        )

    async def is_deleted(self, identity: Identity) -> bool:
        """Whether the API server confirms that an object does not exist; an error is no proof."""
        return await orphans.confirm_deleted(self._api, identity)

    async def reread(self, target: WriteTarget, update: FileUpdate) -> FileUpdate | None:
        """`update` with the live state of its object; None = leave the file as it is.

        Workers call it for updates whose content was dropped to save memory.
        """
        identity = update.identity
        routes = self.routes(identity.gvr, identity.namespace)
        route = next((route for route in routes if route.destination == target.key), None)
        if route is None:
            return None
        removal = replace(update, blob=None, content=None, size=0)
        try:
            obj = await self._api.get(identity.gvr, identity.name, identity.namespace)
        except ApiError as error:
            if orphans.is_deletion_proof(error, identity):
                return removal
            # Unknown state: a snapshot will show it.
            self.resnapshot(target.key)
            return None
        clean = self._object_reader.read(identity.gvr, update.kind, msgspec.json.encode(obj))
        if isinstance(clean, UnreadableLiveObject):
            self.count_skip(identity, SkipReason.UNDECODABLE)
            return None
        if clean.is_terminating:
            return removal
        if clean.skip_reason(include_owned=route.include_owned):
            return replace(removal, reason=clean.exclusion_text)
        content = yaml_emitter.emit(
            self._object_reader.redact(clean.content, identity, target.salt)
        )
        return replace(update, blob=objects.blob_id(content), content=content, size=len(content))


async def _cancel_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _log_crash(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("stream crashed", stream=task.get_name(), exc_info=task.exception())
