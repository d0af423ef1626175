"""The controller role: one process tree that leads, or stands by.

    controller ── probes, metrics
        └── while leading: reverser ── witness (a process of its own)

SIGTERM stops intake, writes what waits, then frees the lease. Losing the lease ends the
reverser at once; the process goes on as a candidate.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from windlass.api.install import Install
from windlass.app import reverser_settings
from windlass.app.settings import Settings
from windlass.app.webhook_trust import WebhookTrust
from windlass.base import memory
from windlass.base.clock import Clock, SystemClock
from windlass.base.errors import Fatal, WindlassError
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.reverser import controller as reverser
from windlass.reverser.controller import Ground, Reverser
from windlass.reverser.tally import Tally
from windlass.reverser.witness import frames
from windlass.reverser.witness.supervisor import Listeners, WitnessSupervisor
from windlass.runtime.holder import Holder
from windlass.runtime.lease import Leadership
from windlass.telemetry.metrics import Metrics
from windlass.web import listener, metrics, probes
from windlass.web.serve import Server

_log = structlog.get_logger(__name__)

_BEGIN_AGAIN_SECONDS = 2.0
_SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")


class ControllerRole:
    """Everything `windlass controller` runs."""

    def __init__(
        self, settings: Settings, connection: Connection, *, at_desk: bool, clock: Clock
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._at_desk = at_desk
        self._clock = clock
        self._api = Api(connection)
        self._install = Install(settings.release, settings.namespace)
        self._registry = CollectorRegistry()
        self._tally = Tally(Metrics(self._registry))
        self._holder = Holder.local()
        self._leadership = self._candidate()
        self._reverser: Reverser | None = None
        self._stopping = asyncio.Event()

    def _candidate(self) -> Leadership:
        # At the desk a dead local process frees the lease at once, so terms may be short.
        duration, renew, retry = (6, 4.0, 1.0) if self._at_desk else (15, 10.0, 2.0)
        return Leadership(
            self._api,
            namespace=self._settings.namespace,
            name=self._install.lease,
            identity=str(self._holder),
            holder_is_dead=self._holder.outlived,
            duration=duration,
            renew=renew,
            retry=retry,
            clock=self._clock,
        )

    async def run(self) -> None:
        """Serve until a signal asks to stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        async with self._metrics(), self._probes():
            if not self._settings.leader_elect:
                await _run_until(self._stopping, self._keep_leading())
                return
            election = asyncio.create_task(self._leadership.run(), name="election")
            try:
                await _run_until(self._stopping, self._alternate())
            finally:
                await self._leadership.release()
                election.cancel()
                await asyncio.gather(election, return_exceptions=True)

    async def _alternate(self) -> None:
        """Lead while the lease is ours, stand by while it is not."""
        while True:
            if not self._leadership.acquired.is_set():
                _log.info("standing by", lease=self._install.lease)
            await self._leadership.acquired.wait()
            _log.info("leading", holder=str(self._holder))
            await _run_until(self._leadership.lost, self._keep_leading())

    def _may_push(self) -> bool:
        return not self._settings.leader_elect or self._leadership.held()

    async def _keep_leading(self) -> None:
        """Lead, and begin again after a fault that may pass."""
        while True:
            try:
                await self._lead()
            except Fatal:
                raise
            except WindlassError as error:
                _log.warning("cannot lead yet", reason=error.reason, message=error.message)
                await asyncio.sleep(_BEGIN_AGAIN_SECONDS)

    async def _lead(self) -> None:
        settings = reverser_settings.of(self._settings, str(self._holder), self._at_desk)
        ground = await reverser.survey(self._api, settings)
        self._reverser = Reverser(
            self._connection,
            settings,
            ground,
            clock=self._clock,
            tally=self._tally,
            may_push=self._may_push,
        )
        address = self._settings.webhook_bind_address
        with contextlib.closing(
            listener.bind(address.host, address.port, flag="--webhook-bind-address")
        ) as listening:
            await self._run_parts(self._reverser, ground, listening)

    async def _run_parts(self, running: Reverser, ground: Ground, listening: socket.socket) -> None:
        trust = WebhookTrust(
            self._api,
            self._install.webhook_configuration,
            dns_names=(f"{self._install.leader_service}.{self._install.namespace}.svc",),
            ip_addresses=("127.0.0.1",) if self._at_desk else (),
            clock=self._clock,
        )
        witness = WitnessSupervisor(
            listening,
            lambda: self._configure(trust, ground),
            Listeners(
                record=running.witnesses.record,
                lost=running.witnesses.lost,
                beat=running.witnesses.beat,
                answered=running.witnesses.answered,
                serving=running.witnesses.serves,
            ),
            self._clock,
            log_format=self._settings.log_format,
            log_level=self._settings.log_level,
        )
        async with asyncio.TaskGroup() as group:
            helpers = [
                group.create_task(witness.run(), name="witness"),
                group.create_task(trust.keep(witness.reconfigure), name="webhook trust"),
            ]
            try:
                await running.run()
            finally:
                for helper in helpers:
                    helper.cancel()

    def _configure(self, trust: WebhookTrust, ground: Ground) -> frames.Configure:
        return frames.Configure(
            certificate_pem=trust.leaf.cert_pem,
            key_pem=trust.leaf.key_pem,
            client_ca_pem=b"",
            digest_key=ground.digest_key,
            sensitive=list(self._settings.sensitive_resource),
            excluded_namespaces=[*_SYSTEM_NAMESPACES, self._settings.namespace],
        )

    @contextlib.asynccontextmanager
    async def _probes(self) -> AsyncIterator[None]:
        address = self._settings.health_probe_bind_address
        app = probes.probes(live={}, ready={"reverser": self._unready})
        flag = "--health-probe-bind-address"
        async with Server(app, address.host, address.port, flag=flag):
            yield

    @contextlib.asynccontextmanager
    async def _metrics(self) -> AsyncIterator[None]:
        address = self._settings.metrics_bind_address
        app = metrics.metrics(self._registry)
        async with Server(app, address.host, address.port, flag="--metrics-bind-address"):
            yield

    def _unready(self) -> str | None:
        """Why the reverser does not work yet; a candidate that stands by is ready."""
        running = self._reverser
        if running is None:
            standing_by = self._settings.leader_elect and not self._leadership.acquired.is_set()
            return None if standing_by else "the cluster is being looked at"
        if not running.cache.complete:
            return "our own resources are not all read yet; are the CRDs installed?"
        if running.catalogue.current is None:
            return "the served types are not known yet"
        return None if running.witnesses.serving else "the witness does not answer yet"


async def _run_until(event: asyncio.Event, work: Coroutine[None, None, None]) -> None:
    """Run `work` until it ends or `event` is set; then it has ended, and its error is ours."""
    task, over = asyncio.create_task(work), asyncio.create_task(event.wait())
    try:
        await asyncio.wait({task, over}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        over.cancel()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def run(settings: Settings, kubeconfig: Path | None, *, at_desk: bool = False) -> None:
    """Run the controller role until a signal ends it."""
    memory.frugal()
    async with Connection.open(kubeconfig=kubeconfig, user_agent="windlass-controller") as found:
        await ControllerRole(settings, found, at_desk=at_desk, clock=SystemClock()).run()
