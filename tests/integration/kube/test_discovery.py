"""Which types a real API server serves."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from tests.support.kube.watch_proxy import ProxyResponse, WatchProxy
from tests.support.processes.polling import DEADLINE_SECONDS, eventually
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.discovery import ApiTypes, ServedType, discover
from windlass.kube.errors import ApiError, Unavailable
from windlass.objects.names import GVR, Object

pytestmark = pytest.mark.cluster

CRDS = GVR("apiextensions.k8s.io", "v1", "customresourcedefinitions")
MANAGER = "windlass-test"


def _definition(group: str) -> Object:
    def version(name: str, *, storage: bool) -> Object:
        return {
            "name": name,
            "served": True,
            "storage": storage,
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                }
            },
            "subresources": {"status": {}},
        }

    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "plural": "things",
                "singular": "thing",
                "kind": "Thing",
                "shortNames": ["th"],
            },
            "versions": [version("v1beta1", storage=False), version("v1", storage=True)],
        },
    }


@pytest.fixture
async def group(api: Api) -> AsyncIterator[str]:
    """A group of custom resources with one kind in two versions."""
    name = f"g{uuid.uuid4().hex[:8]}.example.org"
    await api.create(CRDS, _definition(name), field_manager=MANAGER)
    yield name
    await api.delete(CRDS, f"things.{name}")

    async def is_gone() -> bool:
        return not _types(await discover(api), name, "things")

    await eventually(is_gone, "the kind is served no more")


async def _discovered(api: Api, group: str) -> ApiTypes:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            discovered = await discover(api)
            # The API server adds one version after the other.
            if len(_types(discovered, group, "things")) > 1:
                return discovered
            await asyncio.sleep(0.05)


def _types(discovered: ApiTypes, group: str, plural: str) -> dict[str, ServedType]:
    return {
        served.gvr.version: served
        for served in discovered.types
        if (served.gvr.group, served.gvr.resource) == (group, plural)
    }


def _failed(discovered: ApiTypes) -> set[str]:
    """Failed group versions, without the kinds that other tests create and remove meanwhile."""
    foreign = (".example.org", ".windlass.test")
    return {
        name for name in discovered.failed_groups if not any(suffix in name for suffix in foreign)
    }


async def test_built_in_types(api: Api) -> None:
    """Well-known types are found with their scope and verbs, subresources are not types."""
    discovered = await discover(api)
    assert not _failed(discovered)
    pods = _types(discovered, "", "pods")["v1"]
    assert (pods.kind, pods.namespaced, pods.preferred) == ("Pod", True, True)
    assert {"list", "watch", "create"} <= pods.verbs
    assert not _types(discovered, "", "namespaces")["v1"].namespaced
    assert not any("/" in served.gvr.resource for served in discovered.types)
    assert (
        "list" not in _types(discovered, "authorization.k8s.io", "subjectaccessreviews")["v1"].verbs
    )


async def test_custom_resources(api: Api, group: str) -> None:
    """A new kind appears in each of its versions, one of them preferred."""
    discovered = await _discovered(api, group)
    versions = _types(discovered, group, "things")
    assert versions.keys() == {"v1", "v1beta1"}
    assert versions["v1"].preferred
    assert not versions["v1beta1"].preferred
    assert versions["v1"].short_names == ("th",)


async def test_two_requests(proxy: WatchProxy, through: Connection) -> None:
    """Aggregated discovery costs two requests however many groups there are."""
    await discover(Api(through))
    assert sorted(seen.path for seen in proxy.seen) == ["/api", "/apis"]


async def test_no_aggregation_no_catalog(proxy: WatchProxy, through: Connection) -> None:
    """The documents of a server that is too old are an error, not an empty catalog."""
    proxy.hide_aggregated_discovery()
    with pytest.raises(ApiError, match="serves no APIGroupDiscoveryList at /api"):
        await discover(Api(through))


async def test_no_root_no_catalog(proxy: WatchProxy, through: Connection) -> None:
    """If the roots fail there is no catalog, rather than an empty one."""
    proxy.fault(ProxyResponse(500), when=lambda seen: seen.path == "/apis")
    with pytest.raises(Unavailable):
        await discover(Api(through))
