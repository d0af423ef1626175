"""API capabilities of the cluster for charts (`.Capabilities`): its version, and the served types.

Discovered once and believed for a while; a chart that is not rendered anew never learns of a
change. Where only a part of the types answers, the rest is believed as it was.
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


@dataclass(frozen=True, slots=True)
class ApiCapabilities:
    """The cluster as charts know it; types as `group/version` and `group/version/Kind`."""

    kube_version: str
    api_versions: tuple[str, ...]


class CapabilitiesCache:
    """The cluster behind `api`."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._known: ApiCapabilities | None = None
        self._catalogue: ApiTypes | None = None
        self._discovered_at = 0.0
        # Many ask at once after a start; one question answers all of them.
        self._lock = asyncio.Lock()

    async def get(self) -> ApiCapabilities:
        """The cluster, as of some minutes ago at most."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._known is None or now - self._discovered_at > CAPABILITIES_TTL_SECONDS:
                self._known, self._discovered_at = await self._discover(), now
            return self._known

    async def _discover(self) -> ApiCapabilities:
        try:
            version, _ = await self._api.document("/version")
            self._catalogue = await discovery.discover(self._api, self._catalogue)
        except ApiError as error:
            raise Retryable(
                "RenderUnavailable", f"the API server does not say what it serves: {error.reason}"
            ) from error
        return ApiCapabilities(str(version["gitVersion"]), _api_versions(self._catalogue))


def _api_versions(catalogue: ApiTypes) -> tuple[str, ...]:
    kinds = {f"{found.gvr.api_version}/{found.kind}" for found in catalogue.types}
    versions = {found.gvr.api_version for found in catalogue.types}
    return tuple(sorted(versions | kinds))
