"""Wires the gateways controller: IgnitionSyncs in, ConfigMaps for agents out.

`GatewaysController.run` is what the leader runs; `windlass.app` builds it from the settings.
Start here, then read `reconciler`: it is the story of one reconcile. Only keys cross the
queue; everything is level-triggered, so an event that is missed or comes twice changes
nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

import windlass
from windlass.api.kinds.registry import IGNITION_SYNCS
from windlass.base.clock import Clock
from windlass.gateways.controller.deletion import IgnitionSyncDeletion
from windlass.gateways.controller.gateway_cache import GatewayCache
from windlass.gateways.controller.metrics import GatewayMetricsRecorder, MeteredReporter
from windlass.gateways.controller.owned_writer import OwnedWriter
from windlass.gateways.controller.reconciler import Dependencies, IgnitionSyncReconciler
from windlass.gateways.controller.ref_poller import (
    RETRY_CEILING_SECONDS,
    RETRY_SECONDS,
    RETRY_SPREAD,
    RefPoller,
)
from windlass.gateways.controller.source import SourceReader
from windlass.gateways.controller.status_reporting import CrashReporter, StatusRateLimit
from windlass.git.format import refs
from windlass.git.format.remote import Remote
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.names import Key
from windlass.runtime.controller import Controller
from windlass.runtime.events import EventRecorder, ObjectRef
from windlass.runtime.informer_registry import InformerRegistry
from windlass.runtime.pending_calls import PendingCalls
from windlass.runtime.queue import KeyedQueue
from windlass.runtime.reporter import Reporter
from windlass.sources.git_service import GitService
from windlass.sources.resolver import Resolver
from windlass.telemetry.gateways import GatewayMetrics

STATUS_FIELD_MANAGER = "windlass-gateways-status"
REVISION_ANNOTATION = "sync.ignition.io/revision"
"""The annotation of events that names the commit in force."""

_log: Any = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GatewaysSettings:
    """Settings of the gateways controller; `windlass.app` fills them from flags."""

    work_directory: Path
    """Local directory for proofs of commits; its content may be lost at any time."""
    reflector: ReflectorSettings = field(default_factory=ReflectorSettings)
    """Page size and idle timeout of the watches."""
    cluster_name: str = ""
    """Value of the template variable `.ClusterName`."""
    protected_paths: tuple[str, ...] = ()
    """Paths on gateways that no sync writes, beside the constant ones (PRO-1)."""
    operator_version: str = windlass.__version__
    """Published to agents, for information only."""
    workers: int = 16
    """How many IgnitionSyncs are reconciled at the same time."""
    status_interval_seconds: float = 2.0
    """Mean time between two status writes of one IgnitionSync."""
    pods_timeout_seconds: float = 10.0
    """How long a start waits for the list of pods; then reconciles leave gateways unchanged."""


class GatewaysController:
    """The gateways capability of the leader: informers, queue, reconciler and reporter, wired."""

    def __init__(
        self,
        connection: Connection,
        settings: GatewaysSettings,
        git: GitService,
        *,
        clock: Clock,
        metrics: GatewayMetrics,
    ) -> None:
        self._settings = settings
        # The only path from informers to workers; it holds each key once.
        self._queue: KeyedQueue[Key] = KeyedQueue(
            retry_initial_seconds=RETRY_SECONDS,
            retry_ceiling_seconds=RETRY_CEILING_SECONDS,
            retry_spread=RETRY_SPREAD,
        )
        self._informers = InformerRegistry(connection, settings.reflector, clock)
        self.cache = GatewayCache(self._informers, self._queue.add)
        api = Api(connection)
        metrics_recorder = GatewayMetricsRecorder(metrics)
        git.listings.expect("gateways", self._expected_refs)
        self._resolver = Resolver(
            git,
            settings.work_directory / "proofs",
            clock,
            on_shared=metrics_recorder.record_shared_resolve,
        )
        # Polls of remotes, which no worker waits for.
        self._calls = PendingCalls(self._queue.add)
        ref_poller = RefPoller(
            self._resolver, self._calls, clock, on_result=metrics_recorder.record_resolve
        )
        writer = OwnedWriter(api, self.cache)
        recorder = EventRecorder(
            api, "windlass.dev/gateways", clock=clock, annotate=self._revision_annotation
        )
        status_rate_limit = StatusRateLimit(
            api, clock, interval_seconds=settings.status_interval_seconds
        )
        reconciler = IgnitionSyncReconciler(
            Dependencies(
                api=api,
                cache=self.cache,
                writer=writer,
                ref_poller=ref_poller,
                sources=SourceReader(api, ref_poller),
                deletion=IgnitionSyncDeletion(api, writer, clock),
                status_rate_limit=status_rate_limit,
                metrics=metrics_recorder,
                recorder=recorder,
                clock=clock,
            ),
            git=git.settings,
            cluster_name=settings.cluster_name,
            protected_paths=settings.protected_paths,
            operator_version=settings.operator_version,
        )
        reporter = Reporter(
            status_rate_limit,
            IGNITION_SYNCS,
            self.cache.syncs.get,
            field_manager=STATUS_FIELD_MANAGER,
            recorder=recorder,
            clock=clock,
        )
        self._controller = Controller(
            "ignitionsync",
            self._queue,
            reconciler.reconcile,
            reporter=CrashReporter(
                MeteredReporter(reporter, metrics_recorder), recorder, self.cache.syncs.get
            ),
            workers=settings.workers,
            on_result=metrics_recorder.record_reconcile,
        )

    async def run(self) -> None:
        """Run informers, then workers, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._informers.start(group)
                await self._informers.wait_synced(self.cache.syncs, *self.cache.owned.values())
                await self._wait_for_pods()
                group.create_task(self._controller.run(), name=self._controller.name)
                _log.info("gateways controller started")
                await self._requeue_when_pods_synced()
        finally:
            await self._calls.close()
            await self._resolver.close()

    def _expected_refs(self, remote: Remote) -> frozenset[str]:
        """The refs that all IgnitionSyncs of a repository need, so that one listing serves all."""
        return refs.ref_patterns_of(self.cache.requested_refs(remote))

    def _revision_annotation(self, reference: ObjectRef) -> dict[str, str]:
        commit = self.cache.published_data(Key(reference.namespace, reference.name)).get(
            "commit", ""
        )
        return {REVISION_ANNOTATION: commit} if commit else {}

    async def _wait_for_pods(self) -> None:
        try:
            async with asyncio.timeout(self._settings.pods_timeout_seconds):
                await self.cache.pods.synced.wait()
        except TimeoutError:
            _log.warning(
                "pods not listed yet; leaving agent permissions and gateway counts unchanged"
            )

    async def _requeue_when_pods_synced(self) -> None:
        """Enqueue every IgnitionSync once the pods are known, if workers started without them."""
        if self.cache.pods.synced.is_set():
            return
        await self.cache.pods.synced.wait()
        keys = self.cache.syncs.keys()
        for key in keys:
            self._queue.add(key)
