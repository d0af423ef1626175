"""API capabilities of the cluster for charts (`.Capabilities`): its version, and the served types.

Discovered once per interval; a chart that is not rendered anew never sees a change. Where only
some groups answer, the types of the others stay as they were.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from windlass.base.clock import Clock
from windlass.base.errors import Retryable
from windlass.kube import discovery
from windlass.kube.api import Api
from windlass.kube.discovery import ApiTypes
from windlass.kube.errors import ApiError

CAPABILITIES_TTL_SECONDS = 600.0
"""How long discovered capabilities are used."""


@dataclass(frozen=True, slots=True)
class ApiCapabilities:
    """What charts see of the cluster."""

    kube_version: str  # such as v1.35.4
    api_versions: tuple[str, ...]  # `group/version` and `group/version/Kind`, sorted


class CapabilitiesCache:
    """Discovers the capabilities of the cluster behind `api`, and caches them."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._known: ApiCapabilities | None = None  # None until the first discovery
        self._types: ApiTypes | None = None  # fills in for groups that do not answer
        self._discovered_at = 0.0  # monotonic
        # Many renders begin together after a start; one discovery serves all of them.
        self._lock = asyncio.Lock()

    async def get(self) -> ApiCapabilities:
        """The capabilities, at most CAPABILITIES_TTL_SECONDS old."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._known is None or now - self._discovered_at > CAPABILITIES_TTL_SECONDS:
                self._known, self._discovered_at = await self._discover(), now
            return self._known

    async def _discover(self) -> ApiCapabilities:
        try:
            version = await self._api.document("/version")
            self._types = await discovery.discover(self._api, self._types)
        except ApiError as error:
            raise Retryable("RenderUnavailable", f"API discovery failed: {error.reason}") from error
        return ApiCapabilities(str(version["gitVersion"]), _api_versions(self._types))


def _api_versions(types: ApiTypes) -> tuple[str, ...]:
    kinds = {f"{api_type.gvr.api_version}/{api_type.kind}" for api_type in types.types}
    versions = {api_type.gvr.api_version for api_type in types.types}
    return tuple(sorted(versions | kinds))
