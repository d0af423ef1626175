"""Environments on a node: they serve, are isolated, fail and recover."""

from __future__ import annotations

import asyncio
import contextlib
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
ABSENT = "windlass.dev/not-loaded:1"

T = TypeVar("T")


async def _pod(tenant: EnvironmentHarness, name: str = "one") -> dict[str, Any]:
    """The pod of an Environment that serves."""
    namespace = await tenant.environment_namespace(name)

    async def ready() -> Any:
        for pod in await tenant.api.list(PODS, namespace):
            rows = pod.get("status", {}).get("conditions", [])
            if any(row["type"] == "Ready" and row["status"] == "True" for row in rows):
                return pod
        return None

    pod: dict[str, Any] = await eventually(ready, f"a pod of {name} ready")
    return pod


async def _network(
    cluster: LocalCluster, tenant: EnvironmentHarness, name: str = "one"
) -> PodNetwork:
    pod = (await _pod(tenant, name))["metadata"]
    return await asyncio.to_thread(
        pod_network.network_of_pod, cluster, pod["namespace"], pod["name"]
    )


async def _eventually_true(check: Callable[[], T], what: str) -> T:
    """The first true result of a blocking function."""
    result: T = await eventually(lambda: asyncio.to_thread(check), what)
    return result


@pytest.mark.scenario("E21", "E35", "E36", "E38", "E75")
async def test_two_environments_run_isolated_from_each_other(
    tenant: EnvironmentHarness, node_cluster: LocalCluster, neighbors: NetworkNeighbors
) -> None:
    """They serve inside only; drift is corrected, a crash recovers, deletion ends all."""
    # The delay keeps a crashed pod unready long enough to observe Degraded.
    tenant.commit({"deploy/all.yaml": serving_manifest(probe_delay=2)})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment(), tenant.environment("two"))
        await asyncio.gather(*(tenant.phase("Ready", name, seconds=90) for name in ("one", "two")))
        service = await _check_serving_inside(tenant, node_cluster)
        one, two = [await _network(node_cluster, tenant, name) for name in ("one", "two")]
        await _assert_isolated(neighbors, service, one, two)
        await _check_deleted_policies_are_restored(tenant, neighbors, one)
        await _check_edited_policy_is_restored(tenant, neighbors, one)
        await _check_crash_degrades_and_recovers(tenant, "two")
        await _check_deletion_ends_every_process(tenant, node_cluster)


async def _check_serving_inside(tenant: EnvironmentHarness, cluster: LocalCluster) -> str:
    """A pod without resource requests runs; the address of its Service, which answers."""
    pod, namespace = await _pod(tenant), await tenant.environment_namespace()
    resources = pod["spec"]["containers"][0]["resources"]
    assert {"cpu", "memory"} <= resources["requests"].keys()
    service = str((await tenant.api.get(SERVICES, "web", namespace))["spec"]["clusterIP"])
    name, call = pod["metadata"]["name"], nodes.fetch_command(service, 80)
    exec_ = ("exec", "-n", namespace, name, "--", "sh", "-c", call)
    # kube-proxy learns of a ready pod a moment after its Deployment.
    await _eventually_true(
        lambda: nodes.try_kubectl(cluster, *exec_).stdout.endswith("hello\n"), "the Service answers"
    )
    return service


async def _assert_isolated(
    neighbors: NetworkNeighbors, service: str, one: PodNetwork, two: PodNetwork
) -> None:
    """What must not connect never does; what must is given another chance after a lost packet."""
    for outsider in (two, neighbors.stranger):
        assert not await asyncio.to_thread(outsider.reaches, one.address, 8080)
        assert not await asyncio.to_thread(outsider.reaches, service, 80)
    # The stranger reaches all of them, so only isolation blocks the others.
    forbidden = set(neighbors.forbidden())
    await _eventually_true(
        lambda: neighbors.reached_by(neighbors.stranger) == forbidden, "the stranger reaches all"
    )
    assert await asyncio.to_thread(neighbors.reached_by, one) == set()
    await _eventually_true(lambda: one.reaches(PUBLIC, WEB), "the web")
    await _eventually_true(lambda: one.reaches(neighbors.dns.address, DNS, "UDP"), "DNS")


async def _check_deleted_policies_are_restored(
    tenant: EnvironmentHarness, neighbors: NetworkNeighbors, network: PodNetwork
) -> None:
    """Deleting policies opens a preview only until the operator sees it."""
    namespace = await tenant.environment_namespace()
    before = await _policies(tenant, namespace)
    for name in before:
        await tenant.api.delete(POLICIES, name, namespace)

    async def restored() -> bool:
        live = await _policies(tenant, namespace)
        return live.keys() == before.keys() and not set(live.values()) & set(before.values())

    await eventually(restored, "every policy is restored")
    stranger = neighbors.stranger
    await _eventually_true(
        lambda: not stranger.reaches(network.address, 8080), "the isolation is in force"
    )
    await _eventually_true(lambda: not neighbors.reached_by(network), "the way out is closed")
    await tenant.phase("Ready")


async def _check_edited_policy_is_restored(
    tenant: EnvironmentHarness, neighbors: NetworkNeighbors, network: PodNetwork
) -> None:
    """Rules in fields without an owner are removed; traffic is blocked again."""
    namespace = await tenant.environment_namespace()
    opened = {"spec": {"ingress": [{}], "egress": [{}]}}
    await tenant.patch(POLICIES, "default-policy", opened, namespace)

    async def closed() -> bool:
        spec = (await tenant.api.get(POLICIES, "default-policy", namespace))["spec"]
        return not {"ingress", "egress"} & spec.keys()

    await eventually(closed, "the rules are gone")
    stranger = neighbors.stranger
    await _eventually_true(
        lambda: not stranger.reaches(network.address, 8080), "the isolation is in force"
    )
    await _eventually_true(lambda: not neighbors.reached_by(network), "the way out is closed")
    await tenant.phase("Ready")


async def _policies(tenant: EnvironmentHarness, namespace: str) -> dict[str, str]:
    policies = await tenant.api.list(POLICIES, namespace)
    return {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in policies}


async def _check_crash_degrades_and_recovers(tenant: EnvironmentHarness, name: str) -> None:
    """Generation and revision stay the same."""
    before = await tenant.phase("Ready", name)
    uid = (await _pod(tenant, name))["metadata"]["uid"]

    async def is_degraded() -> bool:
        # Again and again: after one crash the pod may be ready before anybody has looked.
        for pid in pod_network.pod_processes(uid, running="httpd"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool((await tenant.get(name))["status"]["phase"] == "Degraded")

    await eventually(is_degraded, f"{name} is Degraded")
    after = await tenant.phase("Ready", name, seconds=60)
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert after["status"]["revision"] == before["status"]["revision"]


async def _check_deletion_ends_every_process(
    tenant: EnvironmentHarness, cluster: LocalCluster
) -> None:
    """Its namespace, its pods and their processes end with the Environment."""
    namespace = await tenant.environment_namespace()
    uid = (await _pod(tenant))["metadata"]["uid"]
    assert pod_network.pod_processes(uid)
    await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
    await tenant.wait_deleted(ENVIRONMENTS, "one", tenant.namespace)
    await tenant.wait_deleted(NAMESPACES, namespace)
    response = await asyncio.to_thread(cluster.api.request, f"/api/v1/namespaces/{namespace}")
    assert response.status == 404
    await _eventually_true(lambda: not pod_network.pod_processes(uid), "no process is left")


BROKEN = {
    "image": ("ImagePullFailed", serving_manifest(ABSENT)),
    "crash": ("CrashLooping", serving_manifest(script="exit 3")),
    "memory": ("OutOfMemory", serving_manifest(script="tail /dev/zero")),
}


@pytest.mark.scenario("E74")
async def test_failed_rollouts_report_the_cause_and_recover(tenant: EnvironmentHarness) -> None:
    """The message names the container; the next commit recovers."""
    tenant.commit({f"{name}/all.yaml": text for name, (_, text) in BROKEN.items()})
    templates = {name: {"type": "manifest", "path": name} for name in BROKEN}
    environments = [tenant.environment(name, type=name) for name in BROKEN]
    async with tenant.running(rollout_seconds=3.0):
        await tenant.apply(tenant.project(templates=templates), *environments)
        messages = [_failure_message(tenant, name, reason) for name, (reason, _) in BROKEN.items()]
        for message in await asyncio.gather(*messages):
            assert "container main" in message
    tenant.commit({f"{name}/all.yaml": serving_manifest() for name in BROKEN})
    async with tenant.running():
        await asyncio.gather(*(tenant.phase("Ready", name, seconds=60) for name in BROKEN))


async def _failure_message(tenant: EnvironmentHarness, name: str, reason: str) -> str:
    """The message of an Environment that failed with this reason; another may come first."""

    async def failed() -> str:
        status = (await tenant.get(name)).get("status") or {}
        rows = status.get("conditions") or []
        condition = {row["type"]: row for row in rows}.get("DeploymentReady") or {}
        is_failed = status.get("phase") == "Failed" and condition["reason"] == reason
        return str(condition["message"]) if is_failed else ""

    message: str = await eventually(failed, f"{name} has failed with {reason}", seconds=60)
    return message


@pytest.mark.scenario("E120")
async def test_the_applier_stays_in_its_namespace(tenant: EnvironmentHarness) -> None:
    """It writes objects of bundles; no other namespace, no RBAC, no network policies."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment(), tenant.environment("two"))
        await asyncio.gather(*(tenant.phase("Ready", name) for name in ("one", "two")))
    one, two = await tenant.environment_namespace(), await tenant.environment_namespace("two")
    applier = Api(tenant.connection, acting_as=owned_objects.applier_user(one))
    config_maps = GVR("", "v1", "configmaps")
    await applier.apply(config_maps, _object(config_maps, "ConfigMap", one), field_manager="test")
    rbac, network = "rbac.authorization.k8s.io", "networking.k8s.io"
    view = {"roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "view"}}
    for gvr, kind, namespace, more in (
        (config_maps, "ConfigMap", two, {}),
        (config_maps, "ConfigMap", tenant.namespace, {}),
        (GVR(rbac, "v1", "roles"), "Role", one, {"rules": []}),
        (GVR(rbac, "v1", "rolebindings"), "RoleBinding", one, view),
        (GVR(network, "v1", "networkpolicies"), "NetworkPolicy", one, {"spec": {}}),
        (GVR("", "v1", "resourcequotas"), "ResourceQuota", one, {}),
    ):
        obj = {**_object(gvr, kind, namespace), **more}
        with pytest.raises(Forbidden):
            await applier.apply(gvr, obj, field_manager="test")
    for name in await _policies(tenant, one):
        with pytest.raises(Forbidden):
            await applier.delete(POLICIES, name, one)


def _object(gvr: GVR, kind: str, namespace: str) -> dict[str, Any]:
    metadata = {"name": "intruder", "namespace": namespace}
    return {"apiVersion": gvr.api_version, "kind": kind, "metadata": metadata}
