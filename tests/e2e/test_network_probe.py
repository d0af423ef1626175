"""`windlass check --network-probe` on a node: what it says is what the network does."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support import desk as commands
from tests.support import node as nodes
from tests.support import program
from windlass.base.clock import SystemClock
from windlass.dev import cluster as control_plane
from windlass.dev import components, state
from windlass.dev.desk import Desk
from windlass.environments.decide import enforcement, probe_places
from windlass.environments.probe import NetworkProbe
from windlass.kube.api import Api
from windlass.kube.connection import Connection

pytestmark = [pytest.mark.cluster, pytest.mark.node]

ABSENT = "Not/An/Image"


def _left(desk: Desk) -> list[Any]:
    path = f"/api/v1/namespaces?labelSelector={probe_places.SELECTOR}"
    found: list[Any] = json.loads(desk.api.ask(path).text)["items"]
    return found


Said = dict[str, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def said(node_cluster: Desk) -> Said:
    """What two probes say that run side by side, by their image."""

    def run(image: str) -> subprocess.CompletedProcess[str]:
        flags = [f"--image={image}", f"--kubeconfig={node_cluster.admin_kubeconfig}", "-ojson"]
        return program.run(["check", "--network-probe", *flags], os.environ)

    images = (nodes.IMAGE, ABSENT)
    with ThreadPoolExecutor() as pool:
        return dict(zip(images, pool.map(run, images), strict=True))


def test_a_network_that_enforces(said: Said, node_cluster: Desk) -> None:
    """Both directions are measured, and the namespaces are gone."""
    done = said[nodes.IMAGE]
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["verdict"] == "Enforced"
    assert found["left"] == []
    for direction in enforcement.DIRECTIONS:
        assert found[direction]["verdict"] == "Enforced"
        assert 0 < found[direction]["seconds"] < 60
    assert found["nodes"].keys() == {"server", "stranger", "neighbour"}
    assert _left(node_cluster) == []


def test_a_network_that_does_not(node_cluster: Desk) -> None:
    """Nobody makes rules of new policies while the enforcer is dead; the probe sees it."""
    now = state.load(node_cluster.directory)
    assert now is not None
    enforcer = now.processes[components.POLICIES].pid

    def told(text: str) -> None:
        if text.startswith("the pods run"):
            commands.kill(enforcer)

    async def measured() -> list[enforcement.Verdict]:
        async with Connection.open(kubeconfig=node_cluster.admin_kubeconfig) as opened:
            probe = NetworkProbe(
                Api(opened), SystemClock(), image=nodes.IMAGE, seconds=5.0, tell=told
            )
            return [row.verdict for row in (await probe.run()).findings]

    try:
        assert asyncio.run(measured()) == ["NotEnforced", "NotEnforced"]
    finally:
        control_plane.up(node_cluster.name)
    assert _left(node_cluster) == []


def test_an_image_that_cannot_be_had(said: Said, node_cluster: Desk) -> None:
    """The kubelet's own reason is told at once."""
    done = said[ABSENT]
    assert done.returncode == 1
    assert "ImagePullFailed" in done.stderr
    assert ABSENT in done.stderr
    assert _left(node_cluster) == []
