"""Asks an API server which types it serves.

Two requests where discovery is aggregated, else one per group version besides. A group
version that does not answer is failed, not absent; when the roots themselves do not
answer, there is no catalogue and the ApiError says why.
"""

from __future__ import annotations

import asyncio

from windlass.kube import catalogue, paths
from windlass.kube.api import Api
from windlass.kube.catalogue import Catalogue, GroupVersion, ServedType
from windlass.kube.errors import ApiError
from windlass.objects.names import GVR, Object

__all__ = ["Catalogue", "ServedType", "discover"]

_AT_ONCE = 8
_ACCEPT = ",".join(
    [
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        "application/json",
    ]
)


async def discover(api: Api, previous: Catalogue | None = None) -> Catalogue:
    """The types served now; failed group versions keep those of `previous`."""
    core, groups = await asyncio.gather(_root(api, "/api"), _root(api, "/apis"))
    return catalogue.assemble([*core, *groups], previous)


async def _root(api: Api, path: str) -> list[GroupVersion]:
    document, content_type = await api.document(path, accept=_ACCEPT)
    if "APIGroupDiscoveryList" in content_type:
        return catalogue.from_aggregated(document)
    turn = asyncio.Semaphore(_AT_ONCE)
    wanted = _versions(document)
    return list(await asyncio.gather(*(_version(api, turn, *entry) for entry in wanted)))


def _versions(document: Object) -> list[tuple[str, str, bool]]:
    if "groups" in document:
        return catalogue.group_versions(document)
    names = document.get("versions") or []
    return [("", name, place == 0) for place, name in enumerate(names)]


async def _version(
    api: Api, turn: asyncio.Semaphore, group: str, version: str, preferred: bool
) -> GroupVersion:
    async with turn:
        try:
            document, _ = await api.document(paths.group_version(GVR(group, version, "")))
        except ApiError:
            return GroupVersion(group, version, preferred, failed=True)
    return catalogue.from_resource_list(group, version, document, preferred=preferred)
