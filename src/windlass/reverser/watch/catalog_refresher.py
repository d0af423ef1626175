"""Keeps the type catalog current.

Discovery runs at the start, every refresh interval, and when a CustomResourceDefinition
or an APIService changes: then again after 0, 1, 2, 4 and 8 seconds, because a type is
served a moment after its definition is established. A failed scan never removes a type.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from windlass.base.clock import Clock
from windlass.base.errors import WindlassError
from windlass.kube import discovery
from windlass.kube.api import Api
from windlass.kube.discovery import ApiTypes as Served
from windlass.objects.names import GVR
from windlass.reverser.selection.type_catalog import ResourceType, TypeCatalog

CUSTOM_RESOURCE_DEFINITIONS = GVR("apiextensions.k8s.io", "v1", "customresourcedefinitions")
API_SERVICES = GVR("apiregistration.k8s.io", "v1", "apiservices")

_DEBOUNCE_SECONDS = 0.25
_RETRY_SECONDS = (1.0, 2.0, 4.0, 8.0)

_log = structlog.get_logger(__name__)


class CatalogRefresher:
    """The newest catalogue, and the loop that renews it."""

    def __init__(
        self,
        api: Api,
        *,
        refresh_seconds: float,
        on_change: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.current: TypeCatalog | None = None
        self._api = api
        self._served: Served | None = None
        self._refresh_seconds = refresh_seconds
        self._on_change = on_change
        self._clock = clock
        self._refresh_requested = asyncio.Event()

    def refresh_soon(self) -> None:
        """Types may have changed: look soon."""
        self._refresh_requested.set()

    async def run(self) -> None:
        """Renew until cancelled; a failed scan keeps what is known and is tried again soon."""
        again: tuple[float, ...] = ()
        while True:
            scanned = await self._scan()
            wait = self._refresh_seconds if scanned else min(2.0, self._refresh_seconds)
            if again:
                wait, again = min(again[0], wait), again[1:]
            if await self._wait(wait):
                again = _RETRY_SECONDS

    async def _wait(self, seconds: float) -> bool:
        """Whether somebody poked; pokes that come together count once."""
        try:
            async with asyncio.timeout(seconds):
                await self._refresh_requested.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(_DEBOUNCE_SECONDS)
        self._refresh_requested.clear()
        return True

    async def _scan(self) -> bool:
        try:
            served = await discovery.discover(self._api, self._served)
        except WindlassError as error:
            _log.warning("discovery failed", reason=error.reason, message=error.message)
            return False
        if served != self._served:
            self._served = served
            self.current = build_catalog(served)
            self._on_change()
        return True


def build_catalog(served: Served) -> TypeCatalog:
    """The catalogue as decisions see it."""
    return TypeCatalog(
        types=tuple(
            ResourceType(
                gvr=kind.gvr,
                kind=kind.kind,
                namespaced=kind.namespaced,
                verbs=kind.verbs,
                preferred=kind.preferred,
            )
            for kind in served.types
        ),
        failed_groups=served.failed_groups,
        subresource_only=served.subresource_only,
        ambiguous_kinds=served.shared_kinds,
    )
