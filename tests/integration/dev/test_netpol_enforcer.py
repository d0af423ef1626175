"""The enforcer's loop, with a packet filter that may fail."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from tests.support.cluster import control_plane as support
from tests.support.processes.polling import eventually
from windlass.base.errors import WindlassError
from windlass.kube.connection import Connection
from windlass_dev.cluster.local_cluster import LocalCluster
from windlass_dev.netpol import bootstrap
from windlass_dev.netpol.enforcer import Enforcer
from windlass_dev.netpol.iptables_chains import Chains

pytestmark = pytest.mark.cluster


class _Filter:
    """Accepts chains, unless it is broken."""

    def __init__(self) -> None:
        self.is_broken = True
        self.tries = 0
        self.is_applied: list[Chains] = []

    def __call__(self, wanted: Chains) -> None:
        self.tries += 1
        if self.is_broken:
            raise WindlassError("NodeFailed", "no such table")
        self.is_applied.append(wanted)


async def test_a_policy_is_declared_only_when_in_force(
    victim: LocalCluster, tmp_path: Path
) -> None:
    """It tries until it succeeds; from then on every change is applied."""
    packet_filter = _Filter()
    (tmp_path / "node").mkdir()

    async def is_applied(count: int) -> bool:
        return len(packet_filter.is_applied) >= count

    async def is_tried() -> bool:
        return packet_filter.tries >= 1

    async with Connection.open(kubeconfig=victim.admin_kubeconfig) as connection:
        enforcer = Enforcer(connection, tmp_path, "10.9.1.0/24", apply=packet_filter)
        task = asyncio.create_task(enforcer.run())
        try:
            await eventually(is_tried, "a first try")
            assert not bootstrap.is_in_force(tmp_path, os.getpid())
            packet_filter.is_broken = False
            await eventually(lambda: is_applied(1), "a try that succeeds")
            await eventually(lambda: _declared(tmp_path), "the word that it is in force")
            with support.fresh_namespace(victim) as namespace:
                await _policy(victim, namespace)
                await eventually(lambda: is_applied(2), "the policy")
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
    assert packet_filter.is_applied[0] != packet_filter.is_applied[1]
    assert not bootstrap.is_in_force(tmp_path, os.getpid() + 1)


async def _declared(directory: Path) -> bool:
    return bootstrap.is_in_force(directory, os.getpid())


async def _policy(local: LocalCluster, namespace: str) -> None:
    path = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
    body = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "deny"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    }
    created = await asyncio.to_thread(local.api.request, path, method="POST", body=body)
    assert created.ok, created
