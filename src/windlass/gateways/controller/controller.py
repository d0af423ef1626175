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
from windlass.git.ls_remote import RefListings
from windlass.git.runner import ChildSlots, Git
from windlass.git.settings import GitSettings
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.names import Key
from windlass.runtime.controller import Controller
from windlass.runtime.events import EventRecorder, ObjectRef
from windlass.runtime.queue import KeyedQueue
from windlass.runtime.reporter import Reporter
from windlass.sources.resolver import Resolver
from windlass.telemetry.gateways import GatewayMetrics

STATUS_FIELD_MANAGER = "windlass-gateways-status"
REVISION_ANNOTATION = "sync.ignition.io/revision"
"""The annotation of events that names the commit in force."""

_log: Any = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GatewaysSettings:
    """What can be set about gateways."""

    work_directory: Path
    git: GitSettings
    follow: ReflectorSettings = field(default_factory=ReflectorSettings)
    cluster_name: str = ""
    protected_paths: tuple[str, ...] = ()
    operator_version: str = windlass.__version__
    workers: int = 16
    git_children: int = 8
    git_children_per_host: int = 2
    status_interval_seconds: float = 2.0
    pods_timeout_seconds: float = 10.0
    """How long a start waits for the list of pods; after that passes leave gateways alone."""


class GatewaysController:
    """All parts of the capability, wired."""

    def __init__(
        self,
        connection: Connection,
        settings: GatewaysSettings,
        *,
        clock: Clock,
        metrics: GatewayMetrics,
    ) -> None:
        self._settings = settings
        self._queue: KeyedQueue[Key] = KeyedQueue(
            retry_initial_seconds=RETRY_SECONDS,
            retry_ceiling_seconds=RETRY_CEILING_SECONDS,
            retry_spread=RETRY_SPREAD,
        )
        self.cache = GatewayCache(
            connection, self._queue.add, settings=settings.follow, clock=clock
        )
        api = Api(connection)
        measures = GatewayMetricsRecorder(metrics)
        turns = ChildSlots(settings.git_children, settings.git_children_per_host)
        git = Git(settings.git, turns=turns)
        self._listings = RefListings(
            git, clock, on_shared=measures.record_shared_resolve, expected=self._expected_refs
        )
        self._resolver = Resolver(git, self._listings, settings.work_directory / "proofs", clock)
        asking = RefPoller(self._resolver, clock, on_answer=measures.record_resolve)
        hands = OwnedWriter(api, self.cache)
        recorder = EventRecorder(
            api, "windlass.dev/gateways", clock=clock, annotate=self._revision_annotation
        )
        pace = StatusRateLimit(api, clock, interval_seconds=settings.status_interval_seconds)
        passes = IgnitionSyncReconciler(
            Dependencies(
                api=api,
                cache=self.cache,
                writer=hands,
                ref_poller=asking,
                sources=SourceReader(api, asking),
                deletion=IgnitionSyncDeletion(api, hands, clock),
                status_rate_limit=pace,
                metrics=measures,
                recorder=recorder,
                clock=clock,
            ),
            git=settings.git,
            cluster_name=settings.cluster_name,
            protected_paths=settings.protected_paths,
            operator_version=settings.operator_version,
        )
        reporter = Reporter(
            pace,
            IGNITION_SYNCS,
            self.cache.syncs.get,
            field_manager=STATUS_FIELD_MANAGER,
            recorder=recorder,
            clock=clock,
        )
        self._controller = Controller(
            "ignitionsync",
            self._queue,
            passes.reconcile,
            reporter=CrashReporter(
                MeteredReporter(reporter, measures), recorder, self.cache.syncs.get
            ),
            workers=settings.workers,
            on_pass=measures.record_reconcile,
        )

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for informer in self.cache.informers:
                    group.create_task(informer.run(), name=f"informer {informer.scope}")
                await self.cache.syncs.synced.wait()
                for informer in self.cache.owned.values():
                    await informer.synced.wait()
                await self._wait_for_pods()
                group.create_task(self._controller.run(), name=self._controller.name)
                _log.info("gateways started")
                await self._requeue_when_pods_synced()
        finally:
            await self._resolver.close()
            await self._listings.close()

    def _expected_refs(self, remote: Remote) -> frozenset[str]:
        """What the IgnitionSyncs of a repository want to know, whoever of them asks."""
        return refs.ref_patterns_of(self.cache.requested_refs(remote))

    def _revision_annotation(self, about: ObjectRef) -> dict[str, str]:
        commit = self.cache.published_data(Key(about.namespace, about.name)).get("commit", "")
        return {REVISION_ANNOTATION: commit} if commit else {}

    async def _wait_for_pods(self) -> None:
        try:
            async with asyncio.timeout(self._settings.pods_timeout_seconds):
                await self.cache.pods.synced.wait()
        except TimeoutError:
            _log.warning("the pods cannot be listed; rights and counts stay as they are")

    async def _requeue_when_pods_synced(self) -> None:
        """Passes that did without the pods come again once all of them are known."""
        if self.cache.pods.synced.is_set():
            return
        await self.cache.pods.synced.wait()
        keys = self.cache.syncs.keys()
        for key in keys:
            self._queue.add(key)
