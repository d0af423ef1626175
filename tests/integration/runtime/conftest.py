"""A connection to the shared control plane, and a small kind of our own on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import AlreadyExists, NotFound
from windlass.objects.names import GVR

if TYPE_CHECKING:
    from windlass_dev.cluster.local_cluster import LocalCluster

CRDS = GVR("apiextensions.k8s.io", "v1", "customresourcedefinitions")
PROBES = GVR("runtime.windlass.test", "v1", "probes")

_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PROBES.resource}.{PROBES.group}"},
    "spec": {
        "group": PROBES.group,
        "scope": "Namespaced",
        "names": {"plural": PROBES.resource, "singular": "probe", "kind": "Probe"},
        "versions": [
            {
                "name": PROBES.version,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": _OPEN, "status": _OPEN},
                    }
                },
            }
        ],
    },
}


def probe(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """An object of the test kind."""
    return {
        "apiVersion": PROBES.api_version,
        "kind": "Probe",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


async def until(holds: Callable[[], bool], *, seconds: float = 20.0) -> None:
    """Wait for a condition, with a deadline."""

    async def poll_once() -> bool:
        return holds()

    await eventually(poll_once, seconds=seconds)


async def eventually(asks: Callable[[], Awaitable[bool]], *, seconds: float = 20.0) -> None:
    """Poll until the result is true, with a deadline."""
    async with asyncio.timeout(seconds):
        while True:
            if await asks():
                return
            await asyncio.sleep(0.02)


@pytest.fixture
async def api(cluster: LocalCluster) -> AsyncIterator[Api]:
    """The administrator's client."""
    async with Connection.open(kubeconfig=cluster.admin_kubeconfig) as connection:
        yield Api(connection)


@pytest.fixture
async def connection(cluster: LocalCluster) -> AsyncIterator[Connection]:
    """The administrator's connection."""
    async with Connection.open(kubeconfig=cluster.admin_kubeconfig) as opened:
        yield opened


@pytest.fixture
async def probes(api: Api, namespace: str) -> str:
    """The namespace, once the kind is served there."""
    with contextlib.suppress(AlreadyExists):
        await api.create(CRDS, _CRD, field_manager="windlass-test")
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(NotFound):
                await api.list(PROBES, namespace)
                return namespace
            await asyncio.sleep(0.05)
