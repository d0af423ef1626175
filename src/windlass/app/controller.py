"""Controller role: one process that leads, or waits to.

    controller ── probes, metrics
      ├── lease
      └── capabilities, while leading: gateways
                                       reverser ── admission webhook (a process of its own)
                                       environments

Components stop in reverse order: capabilities stop intake and write what is pending, then the lease
is released. Losing the lease ends all capabilities at once; the process stays a candidate. No
capability writes to the API server or to Git without the lease, also not after a pause of the
process: both check right before. A capability that fails is restarted alone and disturbs no other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import structlog
from prometheus_client import CollectorRegistry

from windlass.api.install.installation import Installation
from windlass.app.controller_capabilities import (
    EnvironmentsCapability,
    GatewaysCapability,
    ReverserCapability,
    make_git_service,
)
from windlass.app.role import Component, Endpoints, Role, run_in_background, wait_for_first
from windlass.app.settings import Settings
from windlass.base import memory
from windlass.base.clock import Clock, SystemClock
from windlass.base.errors import Fatal, WindlassError
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.reverser.metrics import MirrorMetrics
from windlass.runtime import controller
from windlass.runtime.lease import Holder, LeaderElection
from windlass.telemetry.environments import EnvironmentMetrics
from windlass.telemetry.gateways import GatewayMetrics
from windlass.telemetry.reverser import ReverserMetrics
from windlass.web.endpoints import Check

_RESTART_SECONDS = 2.0

_log = structlog.get_logger(__name__)


class Capability(Protocol):
    """A capability; `run` works until cancelled, `why_not_ready` is for the readiness probe."""

    @property
    def name(self) -> str: ...

    async def run(self) -> None: ...

    def why_not_ready(self) -> str | None: ...


async def run_with_restarts(capability: Capability) -> None:
    """Run a capability, and restart it after any WindlassError except Fatal."""
    while True:
        try:
            await capability.run()
        except Fatal:
            raise
        except WindlassError as error:
            _log.warning(
                "capability failed, restarting",
                part=capability.name,
                reason=error.reason,
                message=error.message,
            )
            await asyncio.sleep(_RESTART_SECONDS)


class ControllerRole:
    """Everything `windlass controller` runs."""

    def __init__(self, settings: Settings, connection: Connection, *, clock: Clock) -> None:
        self._settings = settings
        self._connection = connection
        self._clock = clock
        self._installation = Installation(settings.release, settings.namespace)
        # Metrics of all capabilities, served at /metrics.
        self._registry = CollectorRegistry()
        self._reverser_metrics = MirrorMetrics(ReverserMetrics(self._registry))
        # This process as the lease names it.
        self._holder = Holder.local()
        self._leadership = self._build_leadership()
        # Runs git for all capabilities, so that their namespaces get fair turns.
        self._git = make_git_service(
            settings,
            connection.server,
            clock=clock,
            on_end=self._reverser_metrics.count_git_operation,
        )
        # Refuses writes without the lease; the election itself uses `_connection`.
        self._guarded_connection = connection.with_lease_guard(self._may_write)
        enabled = settings.capabilities
        self._capabilities = tuple(
            capability for capability in self._build_capabilities() if capability.name in enabled
        )

    def _build_leadership(self) -> LeaderElection:
        settings = self._settings
        return LeaderElection(
            Api(self._connection),
            namespace=settings.namespace,
            name=self._installation.lease,
            identity=str(self._holder),
            holder_is_dead=self._holder.is_known_dead,
            duration=int(settings.leader_elect_lease_duration),
            renew=settings.leader_elect_renew_deadline,
            retry=settings.leader_elect_retry_period,
            on_failure=self._reverser_metrics.metrics.lease_acquire_failures.inc,
            clock=self._clock,
        )

    def _build_capabilities(self) -> tuple[Capability, ...]:
        return (
            GatewaysCapability(
                self._settings,
                self._guarded_connection,
                self._git,
                GatewayMetrics(self._registry),
                clock=self._clock,
            ),
            ReverserCapability(
                self._settings,
                self._guarded_connection,
                self._git,
                self._reverser_metrics,
                holder=str(self._holder),
                may_push=self._may_write,
                clock=self._clock,
            ),
            EnvironmentsCapability(
                self._settings,
                self._guarded_connection,
                self._git,
                EnvironmentMetrics(self._registry),
                clock=self._clock,
            ),
        )

    async def run(self) -> None:
        """Run until a signal ends the process."""
        settings = self._settings
        served = Endpoints(
            settings.health_probe_bind_address,
            settings.metrics_bind_address,
            self._registry,
            ready={
                capability.name: self._readiness(capability) for capability in self._capabilities
            },
        )
        await Role("controller", served, self._components()).run()

    def _components(self) -> tuple[Component, ...]:
        if not self._settings.leader_elect:
            return (run_in_background("capabilities", self._run_capabilities),)
        return (self._lease(), run_in_background("capabilities", self._follow_lease))

    @contextlib.asynccontextmanager
    async def _lease(self) -> AsyncIterator[asyncio.Task[None]]:
        """The component that takes part in the election; stopping it releases the lease."""
        async with run_in_background("election", self._leadership.run) as election:
            try:
                yield election
            finally:
                # Before the election is cancelled: a renewal that is under way ends first.
                await self._leadership.release()

    async def _follow_lease(self) -> None:
        """Run the capabilities while the lease is ours, wait while it is not."""
        while True:
            if not self._leadership.acquired.is_set():
                _log.info("waiting for the lease", lease=self._installation.lease)
            await self._leadership.acquired.wait()
            _log.info("starting capabilities", holder=str(self._holder))
            async with run_in_background("leader", self._run_capabilities) as running:
                await wait_for_first(self._leadership.lost, running)

    def _may_write(self) -> bool:
        return not self._settings.leader_elect or self._leadership.held()

    async def _run_capabilities(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for capability in self._capabilities:
                    group.create_task(run_with_restarts(capability), name=capability.name)
        except BaseExceptionGroup as error:
            raise controller.root_cause(error) from error
        finally:
            await self._git.close()

    def _readiness(self, capability: Capability) -> Check:
        """The readiness check of a capability; a candidate that could lead at any time is ready."""

        def unready() -> str | None:
            if not self._settings.leader_elect or self._leadership.acquired.is_set():
                return capability.why_not_ready()
            return None if self._leadership.answered else "the API server is not responding"

        return unready


async def run(settings: Settings, kubeconfig: Path | None) -> None:
    """Run the controller role until a signal ends it."""
    memory.limit_arenas()
    async with Connection.open(
        kubeconfig=kubeconfig, user_agent="windlass-controller"
    ) as connection:
        await ControllerRole(settings, connection, clock=SystemClock()).run()
