"""Capabilities of the cluster that charts can read."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.base.errors import Retryable
from windlass.environments.render.api_capabilities import (
    CAPABILITIES_TTL_SECONDS,
    CapabilitiesCache,
)
from windlass.kube.errors import Unavailable
from windlass.objects.names import Object

_TYPE = {
    "resource": "widgets",
    "responseKind": {"group": "example.org", "version": "v1", "kind": "Widget"},
    "scope": "Namespaced",
    "verbs": ["get"],
}
_DOCUMENTS: dict[str, Object] = {
    "/version": {"gitVersion": "v1.30.1+k3s1"},
    "/api": {"kind": "APIGroupDiscoveryList", "items": []},
    "/apis": {
        "kind": "APIGroupDiscoveryList",
        "items": [
            {
                "metadata": {"name": "example.org"},
                "versions": [{"version": "v1", "resources": [_TYPE]}],
            }
        ],
    },
}


class Server:
    """An API server that may be away, and a clock."""

    def __init__(self) -> None:
        self.requested: list[str] = []
        self.now = 0.0
        self.away = False

    async def document(self, path: str, **_: Any) -> Object:
        self.requested.append(path)
        if self.away:
            raise Unavailable(503, "ServiceUnavailable", "it is away")
        return _DOCUMENTS[path]

    def monotonic(self) -> float:
        return self.now


async def test_capabilities_are_cached_for_a_while() -> None:
    """Version and types are read again after the interval."""
    server: Any = Server()
    cache = CapabilitiesCache(server, server)
    capabilities = await cache.get()
    assert capabilities.kube_version == "v1.30.1+k3s1"
    assert capabilities.api_versions == ("example.org/v1", "example.org/v1/Widget")
    assert await cache.get() is capabilities
    assert len(server.requested) == 3
    server.now, server.away = CAPABILITIES_TTL_SECONDS + 1, True
    with pytest.raises(Retryable, match="RenderUnavailable"):
        await cache.get()
    server.away = False
    assert await cache.get() == capabilities
