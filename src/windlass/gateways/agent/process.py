"""The agent process beside one gateway: `windlass agent`.

    agent ── probes (/startupz, /healthz), metrics, the newest plan on loopback
      ├── loop         read inputs, decide, run one step, report status
      ├── pod watch    labels and annotations
      ├── gate         until the gateway may start
      └── cluster      metadata in, status out; offline for as long as the API server is

SIGTERM interrupts a sync before its commit point at once and gives a later one ten seconds; if that
is not enough, the journal resumes it at the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
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
from windlass.web import endpoints
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


class AgentProcess:
    """The servers, tasks and the loop of `windlass agent`."""

    def __init__(self, settings: AgentSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._registry = CollectorRegistry()
        self._metrics = AgentMetrics(self._registry)
        self._gate = StartupGate(clock)
        # Set by SIGTERM and SIGINT.
        self._stopping = asyncio.Event()
        # None until the data directory could be opened.
        self._loop: AgentLoop | None = None

    async def run(self) -> None:
        """Serve until a signal asks to stop."""
        event_loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            event_loop.add_signal_handler(number, self._stopping.set)
        async with self._servers():
            volume = await self._open_volume()
            if volume is None:
                return
            try:
                await self._run_agent(volume)
            finally:
                await run_in_thread(volume.close)

    async def _open_volume(self) -> DataVolume | None:
        """The data volume, as soon as it is usable; None if a signal came first."""
        identity = self._settings.identity
        owner = LockOwner(identity.pod_uid, identity.pod_name, identity.node)
        while not self._stopping.is_set():
            try:
                return await run_in_thread(DataVolume, self._settings.paths.data, owner)
            except WindlassError as error:
                _log.warning("data directory not usable, retrying", error=error.message)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_SECONDS):
                    await self._stopping.wait()
        return None

    async def _run_agent(self, volume: DataVolume) -> None:
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
        status_writer = StatusWriter(identity.namespace, identity.pod_name, identity.pod_uid)
        loop = AgentLoop(
            identity, settings.paths, operations, status_writer, self._gate, self._clock
        )
        self._loop = loop
        background = [
            asyncio.create_task(loop.watch_pod(), name="pod watch"),
            asyncio.create_task(self._gate.run(loop.start_facts, loop.wait_for_turn), name="gate"),
            asyncio.create_task(self._connect_cluster(loop, status_writer), name="cluster"),
        ]
        try:
            await self._run_until_stopped(loop, background)
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)

    async def _run_until_stopped(
        self, loop: AgentLoop, background: list[asyncio.Task[None]]
    ) -> None:
        """Run the loop until a signal; the end of any task but the gate ends the process too."""
        loop_task = asyncio.create_task(loop.run(), name="loop")
        stop_task = asyncio.create_task(self._stopping.wait())
        endless = [task for task in background if task.get_name() != "gate"]
        await asyncio.wait({loop_task, stop_task, *endless}, return_when=asyncio.FIRST_COMPLETED)
        stop_task.cancel()
        loop.stop()
        await asyncio.wait({loop_task}, timeout=SHUTDOWN_SECONDS)
        if not loop_task.done():
            _exit_now()
        for task in (loop_task, *endless):
            if task.done():
                task.result()

    async def _connect_cluster(self, loop: AgentLoop, status_writer: StatusWriter) -> None:
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
                    connection, identity.namespace, identity.cr_name, loop.on_metadata
                )
                group.create_task(watch.run(), name="metadata")
                group.create_task(status_writer.run(connection), name="reporter")

    def _scanner(self, access: GatewayEndpoint) -> GatewayScanner:
        scheme = "https" if access.tls else "http"
        paths = self._settings.paths
        return GatewayScanner(
            f"{scheme}://127.0.0.1:{access.port}",
            paths.api_key,
            ca_file=inputs.gateway_ca(paths),
            clock=self._clock,
        )

    @contextlib.asynccontextmanager
    async def _servers(self) -> AsyncIterator[None]:
        settings = self._settings
        probes = endpoints.probes_app(live={}, startup={"gateway": self._gate.blocker})
        servers = (
            Server(probes, *settings.health, flag="--health-probe-bind-address"),
            Server(
                endpoints.metrics_app(self._registry),
                *settings.metrics,
                flag="--metrics-bind-address",
            ),
            Server(self._plan_page(), *settings.plan, flag="--plan-port"),
        )
        async with contextlib.AsyncExitStack() as stack:
            for server in servers:
                await stack.enter_async_context(server)
            _log.info("listening", health=servers[0].port, metrics=servers[1].port)
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


def _exit_now() -> None:
    """Exit although a thread is past its commit point; the journal resumes at the next start."""
    _log.warning("shutting down during a sync; it resumes at the next start")
    sys.stderr.flush()
    os._exit(0)


async def run(settings: AgentSettings) -> None:
    """Run the agent until a signal ends it; called by `windlass agent`."""
    memory.limit_arenas()
    store_limits.limit_pack_windows()
    identity = settings.identity
    with bound_contextvars(
        role="agent", namespace=identity.namespace, cr=identity.cr_name, pod=identity.pod_name
    ):
        await AgentProcess(settings, SystemClock()).run()
