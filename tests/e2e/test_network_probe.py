"""`windlass check --network-probe` on a node: the verdict is right about the network."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.cluster import dev_command as commands
from tests.support.cluster import node as nodes
from tests.support.processes import windlass_command
from windlass.base.clock import SystemClock
from windlass.environments.probe import enforcement
from windlass.environments.probe.network_probe import NetworkProbe
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.objects.names import GVR, Object
from windlass.objects.resources import NETWORK_POLICIES
from windlass_dev.cluster import cluster as control_plane
from windlass_dev.cluster import cluster_state, components
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.node]

ABSENT = "Not/An/Image"


def _probe_namespaces(cluster: LocalCluster) -> list[Any]:
    path = f"/api/v1/namespaces?labelSelector={enforcement.SELECTOR}"
    namespaces: list[Any] = json.loads(cluster.api.request(path).text)["items"]
    return namespaces


Results = dict[str, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def results(node_cluster: LocalCluster) -> Results:
    """The results of two probes that run side by side, by their image."""

    def run(image: str) -> subprocess.CompletedProcess[str]:
        flags = [f"--image={image}", f"--kubeconfig={node_cluster.admin_kubeconfig}", "-ojson"]
        return windlass_command.run(["check", "--network-probe", *flags], os.environ)

    images = (nodes.IMAGE, ABSENT)
    with ThreadPoolExecutor() as pool:
        return dict(zip(images, pool.map(run, images), strict=True))


def test_an_enforcing_network_is_reported(results: Results, node_cluster: LocalCluster) -> None:
    """Both directions are measured, and the namespaces are deleted."""
    done = results[nodes.IMAGE]
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"] == "Enforced"
    assert report["left"] == []
    for direction in enforcement.DIRECTIONS:
        assert report[direction]["verdict"] == "Enforced"
        assert 0 < report[direction]["seconds"] < 60
    assert report["nodes"].keys() == {"server", "stranger", "neighbour"}
    assert _probe_namespaces(node_cluster) == []


class _Unenforced(Api):
    """The API of a cluster whose enforcer is killed right before the first policy is created.

    No sooner: an enforcer blocks pods that it has not seen yet, for ever once it is dead. By
    then the probe has reached its pods.
    """

    def __init__(self, connection: Connection, enforcer: int) -> None:
        super().__init__(connection)
        self._enforcer = enforcer

    async def create(
        self, gvr: GVR, obj: Object, *, field_manager: str, dry_run: bool = False
    ) -> Object:
        if gvr == NETWORK_POLICIES and commands.is_alive(self._enforcer):
            commands.kill(self._enforcer)
        return await super().create(gvr, obj, field_manager=field_manager, dry_run=dry_run)


def test_a_network_without_enforcement_is_reported(node_cluster: LocalCluster) -> None:
    """New policies have no effect while the enforcer is dead; the probe detects it."""
    state = cluster_state.load_state(node_cluster.directory)
    assert state is not None
    enforcer = state.processes[components.POLICIES].pid

    async def measured() -> list[str]:
        async with Connection.open(kubeconfig=node_cluster.admin_kubeconfig) as opened:
            api = _Unenforced(opened, enforcer)
            # Also how long pods may take to run, which on a busy machine is several seconds.
            probe = NetworkProbe(api, SystemClock(), image=nodes.IMAGE, seconds=30.0, report=print)
            return [f"{row.verdict}: {row.message}" for row in (await probe.run()).results]

    try:
        rows = asyncio.run(measured())
        assert [row.partition(":")[0] for row in rows] == ["NotEnforced"] * 2, rows
    finally:
        control_plane.up(node_cluster.name)
    assert _probe_namespaces(node_cluster) == []


def test_an_image_that_cannot_be_pulled(results: Results, node_cluster: LocalCluster) -> None:
    """The reason of the kubelet is reported at once."""
    done = results[ABSENT]
    assert done.returncode == 1
    assert "ImagePullFailed" in done.stderr
    assert ABSENT in done.stderr
    assert _probe_namespaces(node_cluster) == []
