"""Informers of one capability: made alike, started together, awaited by name.

A capability asks for every informer here while it is wired; `start` runs them in its task group,
so one that fails ends the capability, which then is built again with a new registry. Informers of
different capabilities are never of the same scope, so there is no registry above this one
(docs/decisions/0021).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import structlog

from windlass.base.clock import Clock, SystemClock
from windlass.kube.connection import Connection
from windlass.kube.reflector import Scope
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.names import Key
from windlass.runtime.informer import Informer

_PATIENCE_SECONDS = 5.0
"""How long a first list may take before the log names it."""

_log: Any = structlog.get_logger(__name__)


class InformerRegistry:
    """The informers of a capability, over one connection."""

    def __init__(
        self,
        connection: Connection,
        settings: ReflectorSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._connection = connection
        self._settings = settings or ReflectorSettings()
        self._clock = clock or SystemClock()
        self._informers: list[Informer] = []

    def add(
        self,
        scope: Scope,
        on_change: Callable[[Key], None] | None = None,
        *,
        keep: Literal["bytes", "digest"] = "bytes",
        matches: Callable[[bytes], bool] | None = None,
    ) -> Informer:
        """An informer of a scope; `on_change` gets each key that was stored or dropped."""
        informer = Informer(
            self._connection,
            scope,
            on_change=on_change,
            keep=keep,
            matches=matches,
            settings=self._settings,
            clock=self._clock,
        )
        self._informers.append(informer)
        return informer

    def start(self, group: asyncio.TaskGroup) -> None:
        """Run every informer in a task group."""
        for informer in self._informers:
            group.create_task(informer.run(), name=f"informer {informer.scope}")

    async def wait_synced(self, *informers: Informer) -> None:
        """Wait for the first complete snapshot of some informers; without any, of all."""
        for informer in informers or self._informers:
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await informer.synced.wait()
            except TimeoutError:
                _log.warning("waiting for the first list", scope=str(informer.scope))
                await informer.synced.wait()
