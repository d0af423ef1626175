"""Agent role: the process beside one gateway.

    agent ── probes (/startupz, /healthz), metrics
      ├── plan page    the newest plan, on loopback
      ├── volume       data directory and Git object store; waits until they are usable
      ├── pod watch    labels and annotations
      ├── gate         until the gateway may start
      ├── cluster      metadata in, status out; offline for as long as the API server is
      └── loop         read inputs, decide, run one step, report status

SIGTERM interrupts a sync before its commit point at once and gives a later one ten seconds; if that
is not enough, the journal resumes it at the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from structlog.contextvars import bound_contextvars

from windlass.app.role import Component, Endpoints, Role, run_in_background
from windlass.base import memory
from windlass.base.clock import Clock, SystemClock
from windlass.base.errors import WindlassError
from windlass.base.tasks import run_in_thread
from windlass.gateways.agent import inputs
from windlass.gateways.agent.inputs import AgentIdentity, AgentPaths
from windlass.gateways.agent.loop import AgentLoop
from windlass.gateways.agent.metadata_watch import MetadataWatch
from windlass.gateways.agent.operations import GatewayOperations
from windlass.gateways.agent.scanner import GatewayScanner
from windlass.gateways.agent.startup_gate import StartupGate
from windlass.gateways.agent.status import StatusWriter
from windlass.gateways.volume.data_volume import DataVolume
from windlass.gateways.volume.lock import LockOwner
from windlass.gateways.wire.metadata import GatewayEndpoint
from windlass.git import store_limits
from windlass.git.commit_store import CommitStore
from windlass.git.runner import Git
from windlass.git.settings import GitSettings
from windlass.kube.connection import Connection
from windlass.telemetry.gateways import AgentMetrics
from windlass.web.server import Server

SHUTDOWN_SECONDS = 10.0
_RETRY_SECONDS = 5.0

_log: Any = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Settings of an agent process; addresses are host and port, and port 0 takes a free one."""

    identity: AgentIdentity  # pod and CR
    paths: AgentPaths  # mounts
    store_bytes: int  # size of the volume of the Git object store
    git: GitSettings  # program and limits of Git
    kubeconfig: Path | None = None  # None: in-cluster configuration
    health: tuple[str, int] = ("", 8082)  # probes
    metrics: tuple[str, int] = ("", 8083)  # Prometheus
    plan: tuple[str, int] = ("127.0.0.1", 8084)  # newest plan as JSON


class AgentRole:
    """Everything `windlass agent` runs."""

    def __init__(self, settings: AgentSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._registry = CollectorRegistry()
        self._metrics = AgentMetrics(self._registry)
        self._gate = StartupGate(clock)
        identity = settings.identity
        self._status_writer = StatusWriter(identity.namespace, identity.pod_name, identity.pod_uid)
        # None until the data directory could be opened.
        self._loop: AgentLoop | None = None

    async def run(self) -> None:
        """Run until a signal ends the process."""
        settings = self._settings
        served = Endpoints(
            settings.health,
            settings.metrics,
            self._registry,
            startup={"gateway": self._gate.blocker},
        )
        await Role("agent", served, self._components()).run()

    def _components(self) -> tuple[Component, ...]:
        return (
            self._serve_plan(),
            self._open_volume(),
            run_in_background("pod watch", self._watch_pod),
            self._run_gate(),
            run_in_background("cluster", self._connect_cluster),
            self._run_loop(),
        )

    @property
    def _started_loop(self) -> AgentLoop:
        assert self._loop is not None, "the volume is opened before what works on it starts"
        return self._loop

    # ---- components, in their order

    @contextlib.asynccontextmanager
    async def _serve_plan(self) -> AsyncIterator[None]:
        async with Server(self._plan_page(), *self._settings.plan, flag="--plan-port"):
            yield

    def _plan_page(self) -> Starlette:
        """The app that serves the newest plan: paths and digests, never contents."""

        async def newest(request: Request) -> Response:
            del request
            plan = self._loop.latest_plan if self._loop is not None else b""
            if not plan:
                return Response(status_code=404)
            return Response(plan, media_type="application/json")

        return Starlette(routes=[Route("/plan", newest, methods=["GET"])])

    @contextlib.asynccontextmanager
    async def _open_volume(self) -> AsyncIterator[None]:
        """Wait for a usable data volume, and build the loop that works on it."""
        identity = self._settings.identity
        owner = LockOwner(identity.pod_uid, identity.pod_name, identity.node)
        while True:
            try:
                volume = await run_in_thread(DataVolume, self._settings.paths.data, owner)
                break
            except WindlassError as error:
                _log.warning("data directory not usable, retrying", error=error.message)
            await asyncio.sleep(_RETRY_SECONDS)
        try:
            self._loop = await self._build_loop(volume)
            yield
        finally:
            await run_in_thread(volume.close)

    async def _build_loop(self, volume: DataVolume) -> AgentLoop:
        settings, identity = self._settings, self._settings.identity
        store = await run_in_thread(
            CommitStore.open,
            Git(settings.git),
            # In a subdirectory: the mount point itself cannot be renamed to replace a bad store.
            settings.paths.store / "objects.git",
            # The kubelet evicts the whole pod when the volume is full; stay well below.
            cap_bytes=settings.store_bytes * 3 // 4,
        )
        operations = GatewayOperations(
            volume, store, self._scanner, self._clock, self._metrics, pod_uid=identity.pod_uid
        )
        return AgentLoop(
            identity, settings.paths, operations, self._status_writer, self._gate, self._clock
        )

    async def _watch_pod(self) -> None:
        await self._started_loop.watch_pod()

    @contextlib.asynccontextmanager
    async def _run_gate(self) -> AsyncIterator[None]:
        """The only task that may end: an open gate has nothing left to do."""
        loop = self._started_loop
        async with run_in_background(
            "gate", lambda: self._gate.run(loop.start_facts, loop.wait_for_turn)
        ):
            yield

    @contextlib.asynccontextmanager
    async def _run_loop(self) -> AsyncIterator[asyncio.Task[None]]:
        loop = self._started_loop
        task = asyncio.create_task(loop.run(), name="loop")
        try:
            yield task
        finally:
            loop.stop()
            await asyncio.wait({task}, timeout=SHUTDOWN_SECONDS)
            if not task.done():
                _exit_now()
            task.result()

    async def _connect_cluster(self) -> None:
        """Watch metadata and write status; retries while there is no usable configuration."""
        identity = self._settings.identity
        while True:
            try:
                connection = Connection.open(
                    kubeconfig=self._settings.kubeconfig, user_agent="windlass-agent"
                )
            except WindlassError as error:
                _log.warning(
                    "cannot connect to the API server, retrying",
                    reason=error.reason,
                    error=error.message,
                )
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            async with connection, asyncio.TaskGroup() as group:
                watch = MetadataWatch(
                    connection,
                    identity.namespace,
                    identity.cr_name,
                    self._started_loop.on_metadata,
                )
                group.create_task(watch.run(), name="metadata")
                group.create_task(self._status_writer.run(connection), name="reporter")

    def _scanner(self, access: GatewayEndpoint) -> GatewayScanner:
        scheme = "https" if access.tls else "http"
        paths = self._settings.paths
        return GatewayScanner(
            f"{scheme}://127.0.0.1:{access.port}",
            paths.api_key,
            ca_file=inputs.gateway_ca(paths),
            clock=self._clock,
        )


def _exit_now() -> None:
    """Exit although a thread is past its commit point; the journal resumes at the next start."""
    _log.warning("sync interrupted by shutdown; it resumes at the next start")
    sys.stderr.flush()
    os._exit(0)


async def run(settings: AgentSettings) -> None:
    """Run the agent until a signal ends it; called by `windlass agent`."""
    memory.limit_arenas()
    store_limits.limit_pack_windows()
    identity = settings.identity
    with bound_contextvars(
        namespace=identity.namespace, cr=identity.cr_name, pod=identity.pod_name
    ):
        await AgentRole(settings, SystemClock()).run()
