"""Environments whose pods really run: they serve, they are fenced, they fail, they heal."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from tests.support.cluster import node as nodes
from tests.support.cluster import pod_network
from tests.support.cluster.pod_network import PodNetwork
from tests.support.environments.environment_harness import (
    ENVIRONMENTS,
    NAMESPACES,
    POLICIES,
    EnvironmentHarness,
)
from tests.support.environments.network_neighbors import (
    DNS,
    PUBLIC,
    WEB,
    NetworkNeighbors,
    serving_manifest,
)
from tests.support.processes.polling import eventually
from windlass.environments import owned_objects
from windlass.kube.api import Api
from windlass.kube.errors import Forbidden
from windlass.objects.names import GVR
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.node]

PODS = GVR("", "v1", "pods")
SERVICES = GVR("", "v1", "services")
ABSENT = "windlass.dev/nobody-loaded-this:1"

T = TypeVar("T")


async def _pod(tenant: EnvironmentHarness, name: str = "one") -> dict[str, Any]:
    """The pod of an Environment that serves."""
    place = await tenant.place(name)

    async def ready() -> Any:
        for pod in await tenant.api.list(PODS, place):
            rows = pod.get("status", {}).get("conditions", [])
            if any(row["type"] == "Ready" and row["status"] == "True" for row in rows):
                return pod
        return None

    found: dict[str, Any] = await eventually(ready, f"a pod of {name} ready")
    return found


async def _network(desk: LocalCluster, tenant: EnvironmentHarness, name: str = "one") -> PodNetwork:
    pod = (await _pod(tenant, name))["metadata"]
    return await asyncio.to_thread(pod_network.network_of_pod, desk, pod["namespace"], pod["name"])


async def _soon(asks: Callable[[], T], what: str) -> T:
    """The first true answer of something that blocks."""
    found: T = await eventually(lambda: asyncio.to_thread(asks), what)
    return found


@pytest.mark.scenario("E21", "E35", "E36", "E38", "E75")
async def test_two_copies_run_and_do_not_meet(
    tenant: EnvironmentHarness, node_cluster: LocalCluster, outskirts: NetworkNeighbors
) -> None:
    """They serve inside alone; the fence comes back, a crash heals, deletion ends all."""
    # What crashed is not ready again at once, so that it can be seen.
    tenant.commit({"deploy/all.yaml": serving_manifest(probe_delay=2)})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment(), tenant.environment("two"))
        await asyncio.gather(*(tenant.phase("Ready", name, seconds=90) for name in ("one", "two")))
        service = await _serving_inside(tenant, node_cluster)
        one, two = [await _network(node_cluster, tenant, name) for name in ("one", "two")]
        await asyncio.to_thread(_assert_fenced, outskirts, service, one, two)
        await _a_fence_that_was_taken_down_comes_back(tenant, outskirts, one)
        await _a_policy_that_a_hand_opens_is_closed_again(tenant, outskirts, one)
        await _a_crash_degrades_and_heals_by_itself(tenant, "two")
        await _deletion_ends_every_process(tenant, node_cluster)


async def _serving_inside(tenant: EnvironmentHarness, desk: LocalCluster) -> str:
    """A pod without resources started; the address of its Service, which answers inside."""
    pod, place = await _pod(tenant), await tenant.place()
    resources = pod["spec"]["containers"][0]["resources"]
    assert {"cpu", "memory"} <= resources["requests"].keys()
    service = str((await tenant.api.get(SERVICES, "web", place))["spec"]["clusterIP"])
    call = nodes.fetch_command(service, 80)
    said = await asyncio.to_thread(nodes.exec_in_pod, desk, place, pod["metadata"]["name"], call)
    assert said.endswith("hello\n")
    return service


def _assert_fenced(
    outskirts: NetworkNeighbors, service: str, one: PodNetwork, two: PodNetwork
) -> None:
    for outsider in (two, outskirts.stranger):
        assert not outsider.reaches(one.address, 8080)
        assert not outsider.reaches(service, 80)
    # The stranger shows that only the fence keeps the others.
    assert outskirts.reached_by(outskirts.stranger) == set(outskirts.forbidden())
    assert outskirts.reached_by(one) == set()
    assert one.reaches(PUBLIC, WEB)
    assert one.reaches(outskirts.dns.address, DNS, "UDP")


async def _a_fence_that_was_taken_down_comes_back(
    tenant: EnvironmentHarness, outskirts: NetworkNeighbors, network: PodNetwork
) -> None:
    """Nobody opens a preview for longer than it takes to see it."""
    place = await tenant.place()
    before = await _policies(tenant, place)
    for name in before:
        await tenant.api.delete(POLICIES, name, place)

    async def restored() -> bool:
        now = await _policies(tenant, place)
        return now.keys() == before.keys() and not set(now.values()) & set(before.values())

    await eventually(restored, "every policy is back")
    stranger = outskirts.stranger
    await _soon(lambda: not stranger.reaches(network.address, 8080), "the fence in force")
    assert await asyncio.to_thread(outskirts.reached_by, network) == set()
    await tenant.phase("Ready")


async def _a_policy_that_a_hand_opens_is_closed_again(
    tenant: EnvironmentHarness, outskirts: NetworkNeighbors, network: PodNetwork
) -> None:
    """Rules that nobody owned are added; object and packets are soon as before."""
    place = await tenant.place()
    opened = {"spec": {"ingress": [{}], "egress": [{}]}}
    await tenant.patch(POLICIES, "default-policy", opened, place)

    async def closed() -> bool:
        spec = (await tenant.api.get(POLICIES, "default-policy", place))["spec"]
        return not {"ingress", "egress"} & spec.keys()

    await eventually(closed, "the rules are gone")
    stranger = outskirts.stranger
    await _soon(lambda: not stranger.reaches(network.address, 8080), "the fence in force")
    assert await asyncio.to_thread(outskirts.reached_by, network) == set()
    await tenant.phase("Ready")


async def _policies(tenant: EnvironmentHarness, place: str) -> dict[str, str]:
    found = await tenant.api.list(POLICIES, place)
    return {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in found}


async def _a_crash_degrades_and_heals_by_itself(tenant: EnvironmentHarness, name: str) -> None:
    """Nobody asked for anything else, so the generation stays."""
    before = await tenant.phase("Ready", name)
    uid = (await _pod(tenant, name))["metadata"]["uid"]
    for pid in pod_network.pod_processes(uid, running="httpd"):
        os.kill(pid, signal.SIGKILL)
    await tenant.phase("Degraded", name)
    after = await tenant.phase("Ready", name, seconds=60)
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert after["status"]["revision"] == before["status"]["revision"]


async def _deletion_ends_every_process(tenant: EnvironmentHarness, desk: LocalCluster) -> None:
    """With the Environment go its namespace, its pods and what ran in them."""
    place = await tenant.place()
    uid = (await _pod(tenant))["metadata"]["uid"]
    assert pod_network.pod_processes(uid)
    await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
    await tenant.gone(ENVIRONMENTS, "one", tenant.namespace)
    await tenant.gone(NAMESPACES, place)
    gone = await asyncio.to_thread(desk.api.request, f"/api/v1/namespaces/{place}")
    assert gone.status == 404
    await _soon(lambda: not pod_network.pod_processes(uid), "no process is left")


BROKEN = {
    "image": ("ImagePullFailed", serving_manifest(ABSENT)),
    "crash": ("CrashLooping", serving_manifest(script="exit 3")),
    "memory": ("OutOfMemory", serving_manifest(script="tail /dev/zero")),
}


@pytest.mark.scenario("E74")
async def test_rollouts_that_fail_say_why_and_are_mended(tenant: EnvironmentHarness) -> None:
    """The cause, in the pod's own words; the next commit makes it good."""
    tenant.commit({f"{name}/all.yaml": text for name, (_, text) in BROKEN.items()})
    templates = {name: {"type": "manifest", "path": name} for name in BROKEN}
    wishes = [tenant.environment(name, type=name) for name in BROKEN]
    async with tenant.running(rollout_seconds=3.0):
        await tenant.apply(tenant.project(templates=templates), *wishes)
        told = [_failed_by(tenant, name, reason) for name, (reason, _) in BROKEN.items()]
        for said in await asyncio.gather(*told):
            assert "container main" in said
    tenant.commit({f"{name}/all.yaml": serving_manifest() for name in BROKEN})
    async with tenant.running():
        await asyncio.gather(*(tenant.phase("Ready", name, seconds=60) for name in BROKEN))


async def _failed_by(tenant: EnvironmentHarness, name: str, reason: str) -> str:
    """What it says when it has failed for this reason; at first it may not know the cause."""

    async def told() -> str:
        status = (await tenant.get(name)).get("status") or {}
        rows = status.get("conditions") or []
        said = {row["type"]: row for row in rows}.get("DeploymentReady") or {}
        known = status.get("phase") == "Failed" and said["reason"] == reason
        return str(said["message"]) if known else ""

    found: str = await eventually(told, f"{name} has failed by {reason}", seconds=60)
    return found


@pytest.mark.scenario("E120")
async def test_the_applier_stays_in_its_namespace(tenant: EnvironmentHarness) -> None:
    """It writes what bundles bring; no neighbour, no rights, no doors."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment(), tenant.environment("two"))
        await asyncio.gather(*(tenant.phase("Ready", name) for name in ("one", "two")))
    one, two = await tenant.place(), await tenant.place("two")
    applier = Api(tenant.connection, acting_as=owned_objects.applier_user(one))
    config_maps = GVR("", "v1", "configmaps")
    await applier.apply(config_maps, _object(config_maps, "ConfigMap", one), field_manager="test")
    rbac, network = "rbac.authorization.k8s.io", "networking.k8s.io"
    view = {"roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "view"}}
    for gvr, kind, place, more in (
        (config_maps, "ConfigMap", two, {}),
        (config_maps, "ConfigMap", tenant.namespace, {}),
        (GVR(rbac, "v1", "roles"), "Role", one, {"rules": []}),
        (GVR(rbac, "v1", "rolebindings"), "RoleBinding", one, view),
        (GVR(network, "v1", "networkpolicies"), "NetworkPolicy", one, {"spec": {}}),
        (GVR("", "v1", "resourcequotas"), "ResourceQuota", one, {}),
    ):
        wanted = {**_object(gvr, kind, place), **more}
        with pytest.raises(Forbidden):
            await applier.apply(gvr, wanted, field_manager="test")
    for name in await _policies(tenant, one):
        with pytest.raises(Forbidden):
            await applier.delete(POLICIES, name, one)


def _object(gvr: GVR, kind: str, place: str) -> dict[str, Any]:
    metadata = {"name": "intruder", "namespace": place}
    return {"apiVersion": gvr.api_version, "kind": kind, "metadata": metadata}
