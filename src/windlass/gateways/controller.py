"""The gateways capability as one thing to run: IgnitionSyncs in, ConfigMaps for agents out.

`GatewaysController.run` is what the leader runs. Only keys cross its queue; everything is
level-triggered, so an event that is missed or comes twice changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

import windlass
from windlass.api.registry import IGNITION_SYNCS
from windlass.base.clock import Clock
from windlass.gateways.act import Hands
from windlass.gateways.asking import RETRY_CEILING_SECONDS, RETRY_SECONDS, Asking
from windlass.gateways.cache import Cache
from windlass.gateways.farewell import Farewells
from windlass.gateways.leading import Leading
from windlass.gateways.measures import Measures
from windlass.gateways.pace import Pace
from windlass.gateways.passes import Parts, Passes
from windlass.gateways.seeking import Seeking
from windlass.git.child import Git
from windlass.git.listing import Listings
from windlass.git.settings import GitSettings
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.follow import FollowSettings
from windlass.objects.key import Key
from windlass.runtime.controller import Controller
from windlass.runtime.events import EventRecorder
from windlass.runtime.queue import KeyedQueue
from windlass.runtime.reporter import Reporter
from windlass.sources.resolver import Resolver
from windlass.telemetry.gateway_metrics import GatewayMetrics

STATUS_MANAGER = "windlass-gateways-status"

_log: Any = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GatewaysSettings:
    """What can be set about gateways."""

    work_directory: Path
    git: GitSettings
    follow: FollowSettings = field(default_factory=FollowSettings)
    cluster_name: str = ""
    operator_version: str = windlass.__version__
    workers: int = 16
    status_interval_seconds: float = 2.0
    pods_patience_seconds: float = 10.0
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
        may_write: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._queue: KeyedQueue[Key] = KeyedQueue(
            retry_initial_seconds=RETRY_SECONDS, retry_ceiling_seconds=RETRY_CEILING_SECONDS
        )
        self.cache = Cache(connection, self._queue.add, settings=settings.follow, clock=clock)
        api = Api(connection)
        git = Git(settings.git)
        self._listings = Listings(git, clock)
        self._resolver = Resolver(git, self._listings, settings.work_directory / "proofs", clock)
        measures = Measures(metrics)
        asking = Asking(self._resolver, clock, on_answer=measures.answered)
        leading = Leading(may_write)
        hands = Hands(api, self.cache, leading)
        recorder = EventRecorder(api, "windlass.dev/gateways", clock=clock)
        pace = Pace(api, leading, clock, interval_seconds=settings.status_interval_seconds)
        passes = Passes(
            Parts(
                api=api,
                cache=self.cache,
                hands=hands,
                leading=leading,
                asking=asking,
                seeking=Seeking(api, asking),
                farewells=Farewells(api, hands, clock),
                pace=pace,
                measures=measures,
                recorder=recorder,
                clock=clock,
            ),
            git=settings.git,
            cluster_name=settings.cluster_name,
            operator_version=settings.operator_version,
        )
        self._controller = Controller(
            "ignitionsync",
            self._queue,
            passes.reconcile,
            reporter=Reporter(
                pace,
                IGNITION_SYNCS,
                self.cache.syncs.get,
                field_manager=STATUS_MANAGER,
                recorder=recorder,
                clock=clock,
            ),
            workers=settings.workers,
            on_pass=measures.passed,
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
                await self._await_pods()
                group.create_task(self._controller.run(), name=self._controller.name)
                _log.info("gateways started")
                await self._look_again_with_pods()
        finally:
            await self._resolver.close()
            await self._listings.close()

    async def _await_pods(self) -> None:
        try:
            async with asyncio.timeout(self._settings.pods_patience_seconds):
                await self.cache.pods.synced.wait()
        except TimeoutError:
            _log.warning("the pods cannot be listed; rights and counts stay as they are")

    async def _look_again_with_pods(self) -> None:
        """Passes that did without the pods come again once all of them are known."""
        if self.cache.pods.synced.is_set():
            return
        await self.cache.pods.synced.wait()
        keys = self.cache.syncs.keys()
        for key in keys:
            self._queue.add(key)
