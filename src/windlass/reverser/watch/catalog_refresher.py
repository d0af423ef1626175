"""Refreshes the type catalog by API discovery.

Discovery runs at the start, every refresh interval, and when a CustomResourceDefinition
or an APIService changes: then again after 0, 1, 2, 4 and 8 seconds, because a type is
served a moment after its definition is established. A failed discovery never removes a type.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from windlass.base.clock import Clock
from windlass.base.errors import WindlassError
from windlass.kube import discovery
from windlass.kube.api import Api
from windlass.kube.discovery import ApiTypes

_DEBOUNCE_SECONDS = 0.25
_RETRY_SECONDS = (1.0, 2.0, 4.0, 8.0)

_log = structlog.get_logger(__name__)


class CatalogRefresher:
    """The newest type catalog, and the loop that refreshes it."""

    def __init__(
        self,
        api: Api,
        *,
        refresh_seconds: float,
        on_change: Callable[[], None],
        clock: Clock,
    ) -> None:
        # The newest catalog, with the last known types of groups that fail; None until the first
        # discovery succeeded.
        self.current: ApiTypes | None = None
        self._api = api
        self._refresh_seconds = refresh_seconds
        self._on_change = on_change
        self._clock = clock
        self._refresh_requested = asyncio.Event()

    def refresh_soon(self) -> None:
        """Run discovery soon, because types may have changed."""
        self._refresh_requested.set()

    async def run(self) -> None:
        """Refresh until cancelled; a failed discovery keeps the catalog and is retried soon."""
        retries: tuple[float, ...] = ()
        while True:
            succeeded = await self._discover()
            wait = self._refresh_seconds if succeeded else min(2.0, self._refresh_seconds)
            if retries:
                wait, retries = min(retries[0], wait), retries[1:]
            if await self._wait(wait):
                retries = _RETRY_SECONDS

    async def _wait(self, seconds: float) -> bool:
        """Wait, at most `seconds`, for a requested refresh; whether one was requested.

        Requests that come close together count once.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._refresh_requested.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(_DEBOUNCE_SECONDS)
        self._refresh_requested.clear()
        return True

    async def _discover(self) -> bool:
        """Run discovery and publish a changed catalog; False if discovery failed."""
        try:
            served = await discovery.discover(self._api, self.current)
        except WindlassError as error:
            _log.warning("discovery failed", reason=error.reason, message=error.message)
            return False
        if served != self.current:
            self.current = served
            self._on_change()
        return True
