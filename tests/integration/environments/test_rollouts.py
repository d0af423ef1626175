"""Rollouts: kube-controller-manager creates pods, the tests report their status as kubelets."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from tests.support.environments.environment_harness import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENVIRONMENTS,
    MANAGER,
    NAMESPACES,
    PODS,
    EnvironmentHarness,
    deployment,
)
from tests.support.processes.polling import eventually
from windlass.environments.apply import rollout
from windlass.kube.errors import NotFound
from windlass.objects.names import GVR

pytestmark = pytest.mark.cluster

_BINDINGS = GVR("", "v1", "bindings")


@pytest.mark.scenario("E73", "E76")
async def test_an_old_pod_does_not_make_a_new_revision_ready(tenant: EnvironmentHarness) -> None:
    """Ready means the desired revision; until then the old one is reported as serving."""
    first = tenant.commit({"deploy/all.yaml": deployment()})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        ready = await tenant.wait_running()
        namespace = await tenant.environment_namespace()
        second = tenant.commit({"deploy/all.yaml": deployment(image="registry.invalid/web:2")})

        async def two_pods() -> bool:
            return len(await tenant.pods(namespace)) == 2

        await eventually(two_pods, "a pod of the new revision beside the old one")
        environment = await tenant.phase("Deploying")
        assert environment["status"]["serving"] == ready["status"]["serving"]
        assert environment["status"]["serving"]["commits"] == {"app": first}
        assert environment["status"]["revision"] == ready["status"]["revision"] + 1
        assert "still serving" in environment["status"]["message"]
        rows = {row["type"]: row["status"] for row in environment["status"]["conditions"]}
        assert rows["Ready"] == "False"
        done = await tenant.wait_running()
        # An Event is written after the status that it explains, and not by a stopped controller.
        assert len(await _events(tenant, "Deployed", 2)) == 2
    assert done["status"]["serving"]["commits"] == {"app": second}


async def _events(tenant: EnvironmentHarness, reason: str, number: int = 1) -> list[Any]:
    """The Events with a reason, once there are `number` of them."""

    async def reported() -> tuple[list[Any], ...]:
        events = await tenant.events(reason)
        return (events,) if len(events) >= number else ()

    (events,) = await eventually(reported, f"{number} Events {reason}")
    return events


@pytest.mark.scenario("E74")
async def test_a_failed_rollout_reports_the_cause_and_recovers(
    tenant: EnvironmentHarness,
) -> None:
    """Image, crash and memory each have their reason; with ready pods it is Ready again."""
    ended = {"exitCode": 3, "reason": "Error"}
    cases: dict[str, dict[str, Any]] = {
        "ImagePullFailed": {
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
        },
        "CrashLooping": {
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
            "lastState": {"terminated": ended},
        },
        "OutOfMemory": {
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
        },
    }
    tenant.commit({"deploy/all.yaml": deployment()})
    async with tenant.running(rollout_seconds=0.5):
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.condition("DeploymentReady", "RolloutStuck")
        namespace = await tenant.environment_namespace()
        for reason, container in cases.items():
            # RolloutStuck may be reported before the pod exists.
            report = functools.partial(tenant.report_pods, namespace, ready=False, **container)
            assert await eventually(report, "a pod") == 1
            environment = await tenant.condition("DeploymentReady", reason)
            assert environment["status"]["phase"] == "Failed"
            assert "container main" in environment["status"]["message"]
        await tenant.wait_running()


@pytest.mark.scenario("E74")
@pytest.mark.parametrize(
    ("reason", "container"),
    [
        ("QuotaExceeded", {"resources": {"requests": {"memory": "5Gi"}}}),
        ("PodSecurityDenied", {"securityContext": {"runAsUser": 0}}),
    ],
)
async def test_pods_that_the_cluster_refuses_fail_at_once(
    tenant: EnvironmentHarness, reason: str, container: dict[str, Any]
) -> None:
    """Quota and Pod Security are reported without waiting; the next commit recovers."""
    tenant.commit({"deploy/all.yaml": deployment(**container)})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        environment = await tenant.condition("DeploymentReady", reason)
        assert environment["status"]["phase"] == "Failed"
        tenant.commit({"deploy/all.yaml": deployment()})
        await tenant.wait_running()


@pytest.mark.scenario("E75")
async def test_a_crash_of_a_ready_revision_is_degraded_and_recovers(
    tenant: EnvironmentHarness,
) -> None:
    """The Environment is not Stalled, and nothing is written to the workload."""
    tenant.commit({"deploy/all.yaml": deployment()})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.wait_running()
        namespace = await tenant.environment_namespace()
        before = await tenant.api.get(DEPLOYMENTS, "web", namespace)
        crash = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
        await tenant.report_pods(namespace, ready=False, **crash)
        environment = await tenant.phase("Degraded")
        rows = {
            row["type"] for row in environment["status"]["conditions"] if row["status"] == "True"
        }
        assert not rows & {"Ready", "Stalled"}
        await tenant.wait_running()
        after = await tenant.api.get(DEPLOYMENTS, "web", namespace)
        assert after["metadata"]["generation"] == before["metadata"]["generation"]
        assert len(await _events(tenant, "Degraded")) == 1
        assert len(await _events(tenant, "Recovered")) == 1


async def test_a_retry_gives_a_stuck_revision_its_time_again(tenant: EnvironmentHarness) -> None:
    """A retry request leaves Failed, and is acknowledged."""
    tenant.commit({"deploy/all.yaml": deployment()})
    async with tenant.running(rollout_seconds=1.0):
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Failed")
    async with tenant.running(rollout_seconds=600.0):
        await tenant.phase("Deploying")
    await _backdate_revision(tenant, await tenant.environment_namespace())
    async with tenant.running(rollout_seconds=600.0):
        await tenant.phase("Failed")
        patch = {"metadata": {"annotations": {"windlass.dev/retryAt": "now"}}}
        await tenant.patch(ENVIRONMENTS, "one", patch, tenant.namespace)

        async def acknowledged() -> bool:
            # Deploying is also said while a slow render is awaited, before the retry is handled.
            environment = await tenant.phase("Deploying")
            return bool(environment["status"].get("lastHandledRetryAt") == "now")

        await eventually(acknowledged, "the retry is acknowledged")


async def _backdate_revision(tenant: EnvironmentHarness, namespace: str) -> None:
    """Set the start of the revision in `namespace` to long ago."""
    inventory = await tenant.api.get(CONFIG_MAPS, "windlass-inventory", namespace)
    revision = {**json.loads(inventory["data"]["revision"]), "began": "2026-01-01T00:00:00Z"}
    patch = {"data": {"revision": json.dumps(revision)}}
    await tenant.patch(CONFIG_MAPS, "windlass-inventory", patch, namespace)


async def test_a_deleted_workload_is_created_again_without_a_failure(
    tenant: EnvironmentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is created again with DriftCorrected; an old revision is neither stuck nor Degraded."""
    # On a slow machine a pod may be replaced more slowly than a user would accept.
    monkeypatch.setattr(rollout, "REPLACING_SECONDS", 600.0)
    tenant.commit({"deploy/all.yaml": deployment()})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.wait_running()
        namespace = await tenant.environment_namespace()
        old = await tenant.api.get(DEPLOYMENTS, "web", namespace)
    await _backdate_revision(tenant, namespace)
    async with tenant.running() as controller:
        await tenant.reconcile_times(controller, 1)
        await tenant.api.delete(DEPLOYMENTS, "web", namespace)

        async def recreated() -> bool:
            try:
                live = await tenant.api.get(DEPLOYMENTS, "web", namespace)
            except NotFound:
                return False
            return bool(live["metadata"]["uid"] != old["metadata"]["uid"])

        await eventually(recreated, "the Deployment is created again")
        environment = await tenant.phase("Deploying")
        await _events(tenant, "DriftCorrected")
        await tenant.wait_running()
        assert not await tenant.events("Degraded")
        assert not await tenant.events("RolloutStuck")
    rows = {row["type"]: row for row in environment["status"]["conditions"]}
    assert rows["DeploymentReady"]["reason"] == "RolloutProgressing"
    assert rows["Ready"]["status"] == "False"


async def _bind_pod(tenant: EnvironmentHarness, namespace: str) -> str:
    """Bind the only pod to a node, so that it terminates gracefully; its name."""
    (pod,) = await tenant.pods(namespace)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod["metadata"]["name"], "namespace": namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "elsewhere"},
    }
    await tenant.api.create(_BINDINGS, binding, field_manager=MANAGER)
    return str(pod["metadata"]["name"])


@pytest.mark.parametrize(
    ("seconds", "phase", "events"), [(600.0, "Deploying", 0), (0.0, "Degraded", 1)]
)
async def test_a_quota_that_the_old_pod_still_fills_is_no_failure(
    tenant: EnvironmentHarness,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    phase: str,
    events: int,
) -> None:
    """It is, once the time in which a pod may be replaced has passed."""
    monkeypatch.setattr(rollout, "REPLACING_SECONDS", seconds)
    tenant.commit({"deploy/all.yaml": deployment()})
    async with tenant.running():
        quota = {"defaultQuota": {"pods": 1}}
        await tenant.apply(tenant.project(resources=quota), tenant.environment())
        await tenant.wait_running()
        namespace = await tenant.environment_namespace()
        old_pod = await _bind_pod(tenant, namespace)
        await tenant.api.delete(DEPLOYMENTS, "web", namespace)

        async def refused() -> bool:
            try:
                live = await tenant.api.get(DEPLOYMENTS, "web", namespace)
            except NotFound:
                return False
            rows = live.get("status", {}).get("conditions") or []
            return any(row["type"] == "ReplicaFailure" for row in rows)

        await eventually(refused, "the quota refuses the new pod")

        async def explained() -> bool:
            environment = await tenant.phase(phase)
            return "exceeded quota" in environment["status"]["message"]

        await eventually(explained, "the message names the quota")

        async def is_ending() -> bool:
            pod = await tenant.api.get(PODS, old_pod, namespace)
            return "deletionTimestamp" in pod["metadata"]

        # Only then does the test's kubelet leave it alone.
        await eventually(is_ending, "the garbage collector deletes the old pod")
        ended = {"status": {"phase": "Succeeded"}}
        await tenant.patch(PODS, old_pod, ended, namespace, subresource="status")
        await tenant.wait_running()
        assert len(await _events(tenant, "Degraded", events)) == events


def _autoscaled(manifest: str) -> str:
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 5,
        },
    }
    return f"{manifest}---\n{json.dumps(scaler)}\n"


@pytest.mark.parametrize("sets_replicas", [False, True])
async def test_an_autoscaler_that_takes_over_replicas_is_no_drift(
    tenant: EnvironmentHarness, sets_replicas: bool
) -> None:
    """It takes over spec.replicas without an Event; another edit still causes one."""
    manifest = deployment() if sets_replicas else deployment().replace('"replicas":1,', "")
    tenant.commit({"deploy/all.yaml": _autoscaled(manifest)})
    async with tenant.running() as controller:
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.wait_running()
        namespace = await tenant.environment_namespace()
        await tenant.reconcile_times(controller, 2)
        number = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}}
        number["metadata"] = {"name": "web", "namespace": namespace}
        await tenant.api.apply(DEPLOYMENTS, number, field_manager="scaler")
        await tenant.reconcile_times(controller, 2)
        # The way an autoscaler writes.
        scale = {"spec": {"replicas": 3}}
        await tenant.patch(DEPLOYMENTS, "web", scale, namespace, subresource="scale")
        await tenant.wait_running()
        await tenant.reconcile_times(controller, 2)
        live = await tenant.api.get(DEPLOYMENTS, "web", namespace)
        assert live["spec"]["replicas"] == 3
        assert not await tenant.events("DriftCorrected")
        image = [{"name": "main", "image": "registry.invalid/web:other"}]
        edit = {"spec": {"template": {"spec": {"containers": image}}}}
        await tenant.patch(DEPLOYMENTS, "web", edit, namespace)
        assert len(await _events(tenant, "DriftCorrected")) == 1


async def test_the_revision_never_decreases(tenant: EnvironmentHarness) -> None:
    """Also when a user deletes the namespace, which holds the release state."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        second = tenant.commit({"deploy/all.yaml": deployment()})
        before = await tenant.wait_running(commit=second)
        namespace = await tenant.environment_namespace()
        assert before["status"]["revision"] == 2
        await tenant.api.delete(NAMESPACES, namespace)
        old, revisions = before["status"]["namespaceUID"], [2]

        async def recreated() -> bool:
            status = (await tenant.get())["status"]
            revisions.append(status["revision"])
            return bool(status["namespaceUID"] != old)

        async def applied() -> bool:
            return await recreated() and revisions[-1] == 3

        await eventually(recreated, "a new namespace")
        await eventually(applied, "the next revision")
        assert revisions == sorted(revisions)
        await tenant.wait_running()
