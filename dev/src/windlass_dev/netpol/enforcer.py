"""Enforces NetworkPolicies: keeps iptables in step with pods, namespaces, policies.

A change only wakes the loop; the chains are built from the content of the caches. Changes
that arrive together are applied together. While the API server is unreachable the last
chains stay in force.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from windlass.base import failpoint
from windlass.base.errors import WindlassError
from windlass.kube.connection import Connection
from windlass.kube.reflector import Scope
from windlass.objects.names import Key
from windlass.objects.resources import NAMESPACES, NETWORK_POLICIES, PODS
from windlass.runtime.informer import Informer
from windlass.runtime.informer_registry import InformerRegistry
from windlass_dev.netpol import bootstrap, iptables_chains, policy_decoder
from windlass_dev.netpol.iptables_chains import Chains
from windlass_dev.netpol.policy_model import PolicyInputs
from windlass_dev.node import system


def apply_chains(desired: Chains) -> None:
    """Replace our chains in the kernel by `desired`; a crash leaves the old ones or the new."""
    installed = iptables_chains.parse_saved(
        system.run_command("iptables-save", "-t", iptables_chains.TABLE)
    )
    failpoint.reach("dev.node.policies.before")
    # kube-proxy writes too, and legacy iptables allows one writer at a time.
    system.run_command(
        "iptables-restore",
        "--noflush",
        "--wait=5",
        text=iptables_chains.restore_script(desired, installed),
    )
    failpoint.reach("dev.node.policies.after")


_GATHER_SECONDS = 0.02
_RETRY_SECONDS = 1.0

_log: Any = structlog.get_logger()


class Enforcer:
    """Keeps the chains equal to what follows from the caches of pods, namespaces, policies."""

    def __init__(
        self,
        connection: Connection,
        directory: Path,
        pods_network: str,
        *,
        apply: Callable[[Chains], None] = apply_chains,
    ) -> None:
        self._directory = directory
        self._network = pods_network
        self._apply = apply
        # Set by every change of a cache; cleared before the caches are read.
        self._changed = asyncio.Event()
        # The chains applied last; None before the first time and after a failure.
        self._in_force: Chains | None = None
        self._informers = InformerRegistry(connection)
        self._pods, self._namespaces, self._policies = (
            self._informers.add(Scope(gvr), self._schedule)
            for gvr in (PODS, NAMESPACES, NETWORK_POLICIES)
        )

    async def run(self) -> None:
        """Enforce until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._informers.start(group)
            # Chains from half-filled caches would open or close connections by mistake.
            await self._informers.wait_synced()
            self._changed.set()
            while True:
                await self._changed.wait()
                await asyncio.sleep(_GATHER_SECONDS)
                await self._enforce()

    def _schedule(self, key: Key) -> None:
        del key
        self._changed.set()

    async def _enforce(self) -> None:
        self._changed.clear()
        desired = iptables_chains.build_chains(self._policy_inputs(), self._network)
        if desired == self._in_force:
            return
        try:
            await asyncio.to_thread(self._apply, desired)
        except WindlassError as fault:
            _log.error("could not apply network policies; retrying", error=str(fault))
            await self._retry()
            return
        # Only now the cluster may report ready: pods started earlier would be unprotected.
        if self._in_force is None:
            await asyncio.to_thread(bootstrap.mark_in_force, self._directory)
        self._in_force = desired
        _log.info("network policies applied", chains=len(desired), pods=len(self._pods))

    async def _retry(self) -> None:
        self._in_force = None
        await asyncio.to_thread(bootstrap.clear_in_force, self._directory)
        await asyncio.sleep(_RETRY_SECONDS)
        self._changed.set()

    def _policy_inputs(self) -> PolicyInputs:
        pods = (policy_decoder.decode_pod(raw) for _, raw in _cached_objects(self._pods))
        return PolicyInputs(
            pods=tuple(pod for pod in pods if pod is not None),
            namespaces={
                key.name: policy_decoder.decode_namespace_labels(raw)
                for key, raw in _cached_objects(self._namespaces)
            },
            policies=tuple(
                policy_decoder.decode_policy(key.namespace, raw)
                for key, raw in _cached_objects(self._policies)
            ),
        )


def _cached_objects(cache: Informer) -> list[tuple[Key, bytes]]:
    items = ((key, cache.get(key)) for key in sorted(cache.keys()))
    return [(key, raw) for key, raw in items if raw is not None]
