"""Writes how the gateway is into the status ConfigMap of its pod (SIG-2).

The object is made by the controller and named in the metadata; an agent may only write
its own key, by server-side apply. Two writes may follow each other at once, then one in two
seconds; the last state wins, and what is written already is not written again. Progress is
written only if it lasts a second: a short sync takes one write, and its end waits for none.
An object that is not there any more answers 403, because agents may create nothing: that
means wait. A new object gets the report again.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import structlog

from windlass.base.clock import Backoff, RateLimit
from windlass.gateways.agent.watching import CONFIG_MAPS
from windlass.gateways.decide.metadata import StatusObject
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import ApiError, Forbidden

WRITE_SECONDS = 2.0
PROGRESS_SECONDS = 1.0
_BURST = 2

_log: Any = structlog.get_logger(__name__)


class Reporter:
    """What is to be said, and where; `run` says it."""

    def __init__(self, namespace: str, pod_name: str, pod_uid: str) -> None:
        self._namespace = namespace
        self._pod_name = pod_name
        self._manager = f"ignition-sync-agent.{pod_uid}"
        self._text = ""
        self._place: StatusObject | None = None
        self._written: tuple[StatusObject, str] | None = None
        self._changed = asyncio.Event()
        self._limit = RateLimit(WRITE_SECONDS, _BURST)
        self._not_before = 0.0
        """Loop time before which the report is not written, because it may pass at once."""

    def say(self, text: str, *, is_progress: bool = False) -> None:
        """The report as it should stand there; `is_progress` if something else follows soon."""
        if text == self._text:
            return
        self._text = text
        now = asyncio.get_running_loop().time()
        self._not_before = now + PROGRESS_SECONDS if is_progress else 0.0
        self._changed.set()

    def at(self, place: StatusObject | None) -> None:
        """Where it should stand; None while nobody has said so."""
        if place != self._place:
            self._place = place
            self._changed.set()

    async def run(self, connection: Connection) -> None:
        """Write what is due until cancelled; faults delay, and never end this."""
        api = Api(connection)
        backoff = Backoff(WRITE_SECONDS, 60.0)
        while True:
            self._changed.clear()
            due = self._due()
            wait_seconds = self._wait_seconds() if due is not None else None
            if due is None or wait_seconds:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_seconds):
                        await self._changed.wait()
                continue
            await asyncio.sleep(await self._write(api, *due, backoff))

    def _wait_seconds(self) -> float:
        now = asyncio.get_running_loop().time()
        return max(self._limit.wait_seconds(now), self._not_before - now, 0.0)

    def _due(self) -> tuple[StatusObject, str] | None:
        if self._place is None or not self._text:
            return None
        due = (self._place, self._text)
        return due if due != self._written else None

    async def _write(self, api: Api, place: StatusObject, text: str, backoff: Backoff) -> float:
        """Write it; how long to leave the server alone, beside the rate limit."""
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": place.name, "namespace": self._namespace},
            "data": {self._pod_name: text},
        }
        self._limit.count(asyncio.get_running_loop().time())
        try:
            await api.apply(CONFIG_MAPS, body, field_manager=self._manager, force=True)
        except Forbidden as error:
            _log.info("status object is not there", configmap=place.name, error=error.message)
            return max(backoff.next_seconds(), WRITE_SECONDS)
        except ApiError as error:
            _log.warning("status was not written", reason=error.reason, error=error.message)
            return max(backoff.next_seconds(), error.retry_after or 0.0, WRITE_SECONDS)
        backoff.healthy()
        self._written = (place, text)
        return 0.0
