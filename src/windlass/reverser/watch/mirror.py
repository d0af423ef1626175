"""The mirror: keeps the watch streams in step with the route plan and feeds the branch workers.

Rules and open destinations become a route plan, the plan becomes streams, streams deliver file
updates to the folders of their destinations:

    rules + open folders -> RoutePlan -> Stream per scope -> FileUpdate -> Folder

A change of the plan touches only what it changes: scopes that appear start, scopes that disappear
stop, a scope that gains or changes a destination takes a new snapshot, all others run on.

The reconcilers call `start_writing`, `stop_writing`, `select` and `deselect`, the branch workers
`folder_changed`; `run` applies the plan. What is watched stands in the `StreamRegistry`.
Every method runs on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from windlass.base.clock import Clock
from windlass.kube.connection import Connection
from windlass.kube.discovery import ApiTypes
from windlass.kube.reflector import Scope
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.names import GVR, Key
from windlass.reverser import events
from windlass.reverser.attribution.attributor import Attributor
from windlass.reverser.content.clean_object import ObjectReader
from windlass.reverser.event_queue import EventQueue
from windlass.reverser.metrics import MirrorMetrics
from windlass.reverser.publish.folder import WriteTarget
from windlass.reverser.publish.worker_pool import WorkerPool
from windlass.reverser.selection.routes import RoutePlan
from windlass.reverser.selection.rules import RuleResolution
from windlass.reverser.watch.stream import ScopeCoverage, Stream
from windlass.reverser.watch.stream_registry import StreamRegistry

_log = structlog.get_logger(__name__)

_DEBOUNCE_SECONDS = 0.05
"""Changes that come this close together make one new plan."""


class Mirror:
    """Starts and stops the streams of all selected scopes, and the writing to destinations."""

    def __init__(
        self,
        connection: Connection,
        registry: StreamRegistry,
        workers: WorkerPool,
        *,
        object_reader: ObjectReader,
        reflector_settings: ReflectorSettings,
        clock: Clock,
        attributor: Attributor,
        metrics: MirrorMetrics,
        event_queue: EventQueue,
        on_destination: Callable[[Key], None],
        on_rules: Callable[[], None],
    ) -> None:
        self.workers = workers
        self._connection = connection
        self._registry = registry
        self._object_reader = object_reader
        self._reflector_settings = reflector_settings
        self._clock = clock
        self._attributor = attributor
        self._metrics = metrics
        self._event_queue = event_queue
        # Called with each destination whose progress changed.
        self._on_destination = on_destination
        # Called after each new plan, for the rules report the states of their streams.
        self._on_rules = on_rules
        # Kind of each served type, from the newest catalog.
        self._kinds: dict[GVR, str] = {}
        # Remote, branch and folder of each destination as last written, until it is deleted.
        self._locations: dict[Key, tuple[str, str, str]] = {}
        # The task of each stream in the registry.
        self._tasks: dict[Scope, asyncio.Task[None]] = {}
        # Destinations whose folder was open when the plan was built; only those are planned.
        self._open: frozenset[Key] = frozenset()

    # ---- called by the reconcilers

    def set_catalog(self, catalog: ApiTypes) -> None:
        """Take over the kinds of the served types."""
        self._kinds = {served.gvr: served.kind for served in catalog.types}

    def start_writing(self, target: WriteTarget) -> None:
        """Assign a valid destination to the worker of its branch, which opens its folder."""
        before = self._locations.get(target.key, target.location)
        self._locations[target.key] = target.location
        if before != target.location:
            remote, branch, folder = before
            event = events.destination_moved(branch, folder, remote)
            self._event_queue.add(target.key, event, f"{remote} {branch} {folder}")
        if self.workers.assign(target):
            self._registry.resnapshot(target.key)

    def stop_writing(self, destination: Key) -> None:
        """Remove a destination that may not write from its worker; its files stay."""
        if self.workers.find(destination) is not None:
            self.workers.remove(destination)
            self._registry.resnapshot(destination)

    def forget(self, destination: Key) -> None:
        """Stop writing for a destination that is deleted: its successor does not move."""
        self.stop_writing(destination)
        self._locations.pop(destination, None)

    def select(self, kind: str, rule: Key, destination: Key, resolution: RuleResolution) -> None:
        """Set what a rule selects, and for which destination."""
        if self._registry.resolutions.get((kind, rule)) != (destination, resolution):
            self._registry.resolutions[kind, rule] = (destination, resolution)
            self._registry.plan_changed.set()

    def deselect(self, kind: str, rule: Key) -> None:
        """Drop the selection of a rule that is deleted or broken."""
        if self._registry.resolutions.pop((kind, rule), None) is not None:
            self._registry.plan_changed.set()

    # ---- called by the branch workers

    def folder_changed(self, key: Key) -> None:
        """Build a new plan if the folder of a destination was opened or closed."""
        if (self.workers.open_folder(key) is not None) != (key in self._open):
            self._registry.plan_changed.set()

    # ---- the loop: plan, then streams

    async def run(self) -> None:
        """Build the plan after each change and adjust the streams to it, until cancelled."""
        try:
            while True:
                await self._registry.plan_changed.wait()
                await asyncio.sleep(_DEBOUNCE_SECONDS)
                self._registry.plan_changed.clear()
                await self._apply_plan()
        finally:
            await self._stop(list(self._tasks))

    async def _apply_plan(self) -> None:
        plan = self._build_plan()
        streams = self._registry.streams
        for stream in streams.values():
            stream.plan = plan
        desired = {Scope(gvr, namespace) for gvr, namespace in plan.scopes()}
        await self._stop([scope for scope in streams if scope not in desired])
        for scope in desired:
            coverage = _coverage(plan, scope)
            running = streams.get(scope)
            if running is None:
                self._start(scope, plan, coverage)
            elif running.coverage != coverage:
                await self._change_coverage(running, coverage)
        self._on_rules()

    def _build_plan(self) -> RoutePlan:
        """The routes of every rule whose destination has an open folder."""
        self._open = frozenset(
            folder.target.key
            for worker in self.workers
            for _, folder in worker.folders()
            if folder.is_open
        )
        return RoutePlan(
            (destination, resolution)
            for destination, resolution in self._registry.resolutions.values()
            if destination in self._open
        )

    def _start(self, scope: Scope, plan: RoutePlan, coverage: dict[Key, ScopeCoverage]) -> None:
        stream = Stream(
            scope,
            kind=self._kinds.get(scope.gvr, ""),
            connection=self._connection,
            settings=self._reflector_settings,
            object_reader=self._object_reader,
            workers=self.workers,
            attributor=self._attributor,
            metrics=self._metrics,
            event_queue=self._event_queue,
            on_change=self._on_destination,
            clock=self._clock,
        )
        stream.plan, stream.coverage = plan, coverage
        self._registry.streams[scope] = stream
        self._run_stream(stream)

    def _run_stream(self, stream: Stream) -> None:
        task = asyncio.create_task(stream.run(), name=f"stream {stream.scope}")
        task.add_done_callback(_log_crash)
        self._tasks[stream.scope] = task

    async def _change_coverage(self, stream: Stream, coverage: dict[Key, ScopeCoverage]) -> None:
        """Restart the stream if a destination was added or changed; one snapshot serves all."""
        changed = {key for key, rows in coverage.items() if stream.coverage.get(key) != rows}
        stream.coverage = coverage
        if changed:
            await _cancel_task(self._tasks[stream.scope])
            stream.synced -= changed
            self._run_stream(stream)

    async def _stop(self, scopes: list[Scope]) -> None:
        for scope in scopes:
            del self._registry.streams[scope]
            await _cancel_task(self._tasks.pop(scope))


def _coverage(plan: RoutePlan, scope: Scope) -> dict[Key, ScopeCoverage]:
    """What each destination needs of a scope; destinations that need nothing are absent."""
    coverage: dict[Key, ScopeCoverage] = {}
    for destination in plan.destinations():
        rows = frozenset(
            (namespace, route.mask, route.owned_mask)
            for gvr, namespace in plan.scopes_for(destination)
            if gvr == scope.gvr and scope.namespace in ("", namespace)
            for route in plan.routes(gvr, namespace)
            if route.destination == destination
        )
        if rows:
            coverage[destination] = rows
    return coverage


async def _cancel_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _log_crash(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("stream crashed", stream=task.get_name(), exc_info=task.exception())
