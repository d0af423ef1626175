"""The reverser with its witness, as a part of the controller role."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

from windlass.api.install import Install
from windlass.app import git_settings, reverser_settings
from windlass.app.settings import Settings
from windlass.app.webhook_trust import WebhookTrust
from windlass.base.clock import Clock
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.reverser import controller as reverser
from windlass.reverser.controller import Ground, Reverser
from windlass.reverser.tally import Tally
from windlass.reverser.witness import frames
from windlass.reverser.witness.supervisor import Listeners, WitnessSupervisor
from windlass.web import server
from windlass.web.webhook_identity import ServingNames


class ReverserPart:
    """Mirrors the cluster; its witness is a process of its own."""

    name = "reverser"

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        tally: Tally,
        *,
        holder: str,
        may_push: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._tally = tally
        self._holder = holder
        self._may_push = may_push
        self._clock = clock
        self._api = Api(connection)
        self._install = Install(settings.release, settings.namespace)
        self._running: Reverser | None = None

    async def run(self) -> None:
        git = git_settings.of(self._settings, self._connection.server)
        settings = reverser_settings.of(self._settings, self._holder, git)
        ground = await reverser.survey(self._api, settings)
        self._running = Reverser(
            self._connection,
            settings,
            ground,
            clock=self._clock,
            tally=self._tally,
            may_push=self._may_push,
        )
        address = self._settings.webhook_bind_address
        with contextlib.closing(
            server.bind_socket(address.host, address.port, flag="--webhook-bind-address")
        ) as listening:
            await self._with_witness(self._running, ground, listening)

    def unready(self) -> str | None:
        running = self._running
        if running is None:
            return "the cluster is being looked at"
        if not running.cache.complete:
            return "our own resources are not all read yet; are the CRDs installed?"
        if running.catalogue.current is None:
            return "the served types are not known yet"
        return None if running.witnesses.serving else "the witness does not answer yet"

    async def _with_witness(
        self, running: Reverser, ground: Ground, listening: socket.socket
    ) -> None:
        trust = WebhookTrust(
            self._connection,
            self._install,
            ServingNames(
                (f"{self._install.leader_service}.{self._install.namespace}.svc",),
                self._settings.webhook_certificate_addresses,
            ),
            self._clock,
            on_asked=running.witnesses.asks,
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
            certificate_pem=trust.identity.leaf.cert_pem,
            key_pem=trust.identity.leaf.key_pem,
            client_ca_pem=b"",
            digest_key=ground.digest_key,
            sensitive=list(self._settings.sensitive_resource),
            paths=trust.paths,
        )
