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
from windlass.objects.names import GVR
from windlass.reverser.selection.type_catalog import ResourceType, TypeCatalog

CUSTOM_RESOURCE_DEFINITIONS = GVR("apiextensions.k8s.io", "v1", "customresourcedefinitions")
API_SERVICES = GVR("apiregistration.k8s.io", "v1", "apiservices")

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
        # The newest catalog; None until the first discovery succeeded.
        self.current: TypeCatalog | None = None
        self._api = api
        # What `current` was built from; also the last known types of groups that fail.
        self._served: ApiTypes | None = None
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
            served = await discovery.discover(self._api, self._served)
        except WindlassError as error:
            _log.warning("discovery failed", reason=error.reason, message=error.message)
            return False
        if served != self._served:
            self._served = served
            self.current = build_catalog(served)
            self._on_change()
        return True


def build_catalog(served: ApiTypes) -> TypeCatalog:
    """The catalog of the discovered types, in the form that rules are resolved against."""
    return TypeCatalog(
        types=tuple(
            ResourceType(
                gvr=api_type.gvr,
                kind=api_type.kind,
                namespaced=api_type.namespaced,
                verbs=api_type.verbs,
                preferred=api_type.preferred,
            )
            for api_type in served.types
        ),
        failed_groups=served.failed_groups,
        subresource_only=served.subresource_only,
        ambiguous_kinds=served.shared_kinds,
    )
