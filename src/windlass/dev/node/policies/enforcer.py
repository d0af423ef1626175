"""Keeps the packet filter in step with pods, namespaces, policies.

Every change says only "look again"; what the caches hold decides. Changes that come
together are taken together. While the API server is away the last chains stay in force.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from windlass.base.errors import WindlassError
from windlass.dev.node.policies import chains, enforcement, kernel, reading
from windlass.dev.node.policies.chains import Chains
from windlass.dev.node.policies.seen import World
from windlass.kube.connection import Connection
from windlass.kube.follow import Scope
from windlass.objects.gvr import GVR
from windlass.objects.key import Key
from windlass.runtime.informer import Informer

PODS = GVR("", "v1", "pods")
NAMESPACES = GVR("", "v1", "namespaces")
POLICIES = GVR("networking.k8s.io", "v1", "networkpolicies")

_GATHER_SECONDS = 0.02
_RETRY_SECONDS = 1.0

_log: Any = structlog.get_logger()


class Enforcer:
    """Three caches, and the chains that follow from them."""

    def __init__(
        self,
        connection: Connection,
        directory: Path,
        pods_network: str,
        *,
        apply: Callable[[Chains], None] = kernel.apply,
    ) -> None:
        self._directory = directory
        self._network = pods_network
        self._apply = apply
        self._changed = asyncio.Event()
        self._in_force: Chains | None = None
        self._pods, self._namespaces, self._policies = (
            Informer(connection, Scope(gvr), on_change=self._look)
            for gvr in (PODS, NAMESPACES, POLICIES)
        )

    async def run(self) -> None:
        """Enforce until cancelled."""
        caches = (self._pods, self._namespaces, self._policies)
        async with asyncio.TaskGroup() as group:
            for cache in caches:
                group.create_task(cache.run())
            for cache in caches:
                await cache.synced.wait()
            self._changed.set()
            while True:
                await self._changed.wait()
                await asyncio.sleep(_GATHER_SECONDS)
                await self._enforce()

    def _look(self, key: Key) -> None:
        del key
        self._changed.set()

    async def _enforce(self) -> None:
        self._changed.clear()
        wanted = chains.of(self._world(), self._network)
        if wanted == self._in_force:
            return
        try:
            await asyncio.to_thread(self._apply, wanted)
        except WindlassError as fault:
            _log.error("policies are not in force", error=str(fault))
            await self._again()
            return
        if self._in_force is None:
            await asyncio.to_thread(enforcement.declare, self._directory)
        self._in_force = wanted
        _log.info("policies in force", chains=len(wanted), pods=len(self._pods))

    async def _again(self) -> None:
        self._in_force = None
        await asyncio.to_thread(enforcement.withdraw, self._directory)
        await asyncio.sleep(_RETRY_SECONDS)
        self._changed.set()

    def _world(self) -> World:
        pods = (reading.pod(raw) for _, raw in _held(self._pods))
        return World(
            pods=tuple(pod for pod in pods if pod is not None),
            namespaces={key.name: reading.namespace(raw) for key, raw in _held(self._namespaces)},
            policies=tuple(
                reading.policy(key.namespace, raw) for key, raw in _held(self._policies)
            ),
        )


def _held(cache: Informer) -> list[tuple[Key, bytes]]:
    found = ((key, cache.get(key)) for key in sorted(cache.keys()))
    return [(key, raw) for key, raw in found if raw is not None]
