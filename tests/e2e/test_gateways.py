"""A gateway in a real pod, with the agent as its sidecar, follows a branch."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import socket
from collections.abc import AsyncIterator
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.cluster import control_plane as support
from tests.support.cluster import pod_network
from tests.support.gateways.fleet import Fleet, running_controller
from tests.support.git.http_server import commit_files, git_settings, running_git_server
from tests.support.processes.polling import eventually
from windlass.api.kinds.registry import IGNITION_SYNCS
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.objects.names import GVR
from windlass_dev.mock_gateway import gateway_pod
from windlass_dev.mock_gateway.gateway_pod import GatewayPod
from windlass_dev.node import windlass_container

if TYPE_CHECKING:
    from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.node]

PODS = GVR("", "v1", "pods")
TOKEN = "ci:0123456789abcdef"
VIEW = "projects/line/com.inductiveautomation.perspective/views/Overview"
POD = "area-1"


def _files(title: str) -> dict[str, str]:
    resource = {"scope": "G", "version": 1, "files": ["view.json"], "attributes": {}}
    return {
        "services/site/projects/line/project.json": json.dumps({"title": "line"}),
        f"services/site/{VIEW}/view.json": json.dumps({"title": title}),
        f"services/site/{VIEW}/resource.json": json.dumps(resource),
    }


@pytest.fixture
async def site(
    node_cluster: LocalCluster, node_operator: Path, tmp_path: Path
) -> AsyncIterator[Fleet]:
    """A namespace whose gateways can reach a git server on this machine."""
    windlass_container.load_image(node_cluster)
    with (
        running_git_server(tmp_path / "git", host=node_cluster.host) as served,
        support.fresh_namespace(node_cluster, pods=True) as namespace,
    ):
        async with (
            Connection.open(kubeconfig=node_cluster.admin_kubeconfig) as admin,
            Connection.open(kubeconfig=node_operator) as operator,
        ):
            fleet = Fleet(Api(admin), admin, served, namespace)
            await fleet.account("default")
            await fleet.secret(apiKey=TOKEN)
            git = git_settings(tmp_path)
            hosts = git.insecure_hosts | {node_cluster.host}
            work = tmp_path / "work"
            settings = dataclasses.replace(git, insecure_hosts=hosts)
            async with running_controller(operator, work, git=settings):
                yield fleet


def _pod(fleet: Fleet, cluster: LocalCluster) -> dict[str, Any]:
    return GatewayPod(
        name=POD,
        namespace=fleet.namespace,
        sync="site",
        service_path="services/site",
        api_key_secret="ignition-api",
        git_secret="none",
        git_host=cluster.host,
    ).manifest()


async def _get_from_gateway(cluster: LocalCluster, fleet: Fleet, path: str) -> Any:
    """The mock gateway's response to a GET in its pod's network, once it is up."""
    network = await asyncio.to_thread(pod_network.network_of_pod, cluster, fleet.namespace, POD)

    def get() -> bytes:
        connection = HTTPConnection("127.0.0.1", gateway_pod.CONTROL_PORT)
        with contextlib.closing(connection), contextlib.suppress(OSError):
            connection.sock = network.socket(socket.SOCK_STREAM)
            connection.sock.settimeout(10)
            connection.sock.connect((connection.host, connection.port))
            connection.request("GET", path)
            response = connection.getresponse()
            return response.read() if response.status == 200 else b""
        return b""

    async def poll() -> bytes:
        return await asyncio.to_thread(get)

    return json.loads(await eventually(poll, f"the gateway answers {path}", seconds=60.0))


async def _wait_synced(fleet: Fleet, commit: str) -> None:
    async def poll() -> bool:
        status = await fleet.status()
        rows = status.get("discoveredGateways") or [{}]
        ready = (await fleet.condition()).get("status") == "True"
        return ready and rows[0].get("syncedCommit") == commit

    await eventually(poll, f"{commit} is on the gateway", seconds=90.0)


async def test_a_push_reaches_the_gateway_and_is_scanned(
    site: Fleet, node_cluster: LocalCluster
) -> None:
    """The first files before the gateway starts, later ones by a scan, and never a torn read."""
    first = commit_files(site.repository, _files("Line 1"))
    sync = site.sync(
        polling={"interval": "5s"},
        gateway={
            "port": gateway_pod.PORT,
            "tls": False,
            "apiKeySecretRef": {"name": "ignition-api"},
        },
    )
    await site.apply(sync)
    await site.admin.create(PODS, _pod(site, node_cluster), field_manager="test")
    await _wait_synced(site, first)
    loaded = await _get_from_gateway(node_cluster, site, "/loaded")
    assert f"{VIEW}/view.json" in loaded, "it was there when the gateway started"
    posts = await _get_from_gateway(node_cluster, site, "/posts")
    (row,) = (await site.status())["discoveredGateways"]
    # A gateway that waited too long for its first files was started without them, and scans.
    assert bool(posts) == (row["lastScanResult"] != "at boot")
    second = commit_files(site.repository, _files("Bottling"))
    await _wait_synced(site, second)
    assert await _get_from_gateway(node_cluster, site, "/posts") == {
        **posts,
        "projects": posts.get("projects", 0) + 1,
    }
    reloaded = await _get_from_gateway(node_cluster, site, "/loaded")
    assert reloaded[f"{VIEW}/view.json"] != loaded[f"{VIEW}/view.json"]
    assert await _get_from_gateway(node_cluster, site, "/torn") == []
    await site.admin.delete(IGNITION_SYNCS, "site", site.namespace)
    assert await _get_from_gateway(node_cluster, site, "/loaded") == reloaded
