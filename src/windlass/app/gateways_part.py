"""Gateways, as a part of the controller role."""

from __future__ import annotations

from windlass.app import git_settings
from windlass.app.settings import Settings
from windlass.base.clock import Clock
from windlass.gateways.controller import GatewaysController, GatewaysSettings
from windlass.kube.connection import Connection
from windlass.kube.reflector_state import ReflectorSettings
from windlass.telemetry.gateways import GatewayMetrics


class GatewaysPart:
    """Tells agents which commit their gateway should have."""

    name = "gateways"

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        metrics: GatewayMetrics,
        *,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._metrics = metrics
        self._clock = clock
        self._running: GatewaysController | None = None

    async def run(self) -> None:
        self._running = GatewaysController(
            self._connection,
            GatewaysSettings(
                work_directory=self._settings.work_dir / "gateways",
                git=git_settings.of(self._settings, self._connection.server),
                follow=ReflectorSettings(
                    page_size=self._settings.page_size,
                    idle_seconds=self._settings.watch_idle_timeout,
                ),
                cluster_name=self._settings.gateways_cluster_name,
                protected_paths=self._settings.gateways_protected_paths,
            ),
            clock=self._clock,
            metrics=self._metrics,
        )
        await self._running.run()

    def unready(self) -> str | None:
        running = self._running
        if running is None or not running.cache.syncs.synced.is_set():
            return "IgnitionSyncs are not all read yet; are the CRDs installed?"
        return None
