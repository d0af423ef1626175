"""Whether what was applied runs: the controller-manager makes pods, the tests play kubelet."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from tests.support.environments.environment_harness import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENVIRONMENTS,
    NAMESPACES,
    EnvironmentHarness,
    deployment,
)
from tests.support.processes.polling import eventually
from windlass.kube.errors import NotFound

pytestmark = pytest.mark.cluster


@pytest.mark.scenario("E73", "E76")
async def test_an_old_pod_does_not_make_a_new_revision_ready(tenant: EnvironmentHarness) -> None:
    """Ready is said of the wished revision; until then the old one is named as serving."""
    first = tenant.commit({"deploy/all.yaml": deployment()})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        ready = await tenant.started()
        place = await tenant.place()
        second = tenant.commit({"deploy/all.yaml": deployment(image="registry.invalid/web:2")})

        async def two_pods() -> bool:
            return len(await tenant.pods(place)) == 2

        await eventually(two_pods, "a pod of the new revision beside the old one")
        found = await tenant.phase("Deploying")
        assert found["status"]["serving"] == ready["status"]["serving"]
        assert found["status"]["serving"]["commits"] == {"app": first}
        assert found["status"]["revision"] == ready["status"]["revision"] + 1
        assert "still serving" in found["status"]["message"]
        rows = {row["type"]: row["status"] for row in found["status"]["conditions"]}
        assert rows["Ready"] == "False"
        done = await tenant.started()
    assert done["status"]["serving"]["commits"] == {"app": second}
    assert len(await _events(tenant, "Deployed")) == 2


async def _events(tenant: EnvironmentHarness, reason: str) -> list[Any]:
    async def found() -> list[Any]:
        return await tenant.events(reason)

    return list(await eventually(found, f"an event {reason}"))


@pytest.mark.scenario("E74")
async def test_the_cause_is_told_by_the_pods_and_heals_with_them(
    tenant: EnvironmentHarness,
) -> None:
    """Image, crash and memory each have their reason; once fixed it is ready by itself."""
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
        place = await tenant.place()
        for reason, container in cases.items():
            # That it is stuck is known before its pod need be there.
            say = functools.partial(tenant.pods_say, place, ready=False, **container)
            assert await eventually(say, "a pod") == 1
            found = await tenant.condition("DeploymentReady", reason)
            assert found["status"]["phase"] == "Failed"
            assert "container main" in found["status"]["message"]
        await tenant.started()


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
    """Quota and Pod Security are told as such without waiting; a better commit heals it."""
    tenant.commit({"deploy/all.yaml": deployment(**container)})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        found = await tenant.condition("DeploymentReady", reason)
        assert found["status"]["phase"] == "Failed"
        tenant.commit({"deploy/all.yaml": deployment()})
        await tenant.started()


@pytest.mark.scenario("E75")
async def test_a_crash_after_it_ran_is_degraded_and_heals(tenant: EnvironmentHarness) -> None:
    """Nobody is asked to act, and nothing is written to the workload."""
    tenant.commit({"deploy/all.yaml": deployment()})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.started()
        place = await tenant.place()
        before = await tenant.api.get(DEPLOYMENTS, "web", place)
        crash = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
        await tenant.pods_say(place, ready=False, **crash)
        found = await tenant.phase("Degraded")
        rows = {row["type"] for row in found["status"]["conditions"] if row["status"] == "True"}
        assert not rows & {"Ready", "Stalled"}
        await tenant.started()
        after = await tenant.api.get(DEPLOYMENTS, "web", place)
        assert after["metadata"]["generation"] == before["metadata"]["generation"]
        assert len(await _events(tenant, "Degraded")) == 1
        assert len(await _events(tenant, "Recovered")) == 1


async def test_a_retry_gives_a_stuck_revision_its_time_again(tenant: EnvironmentHarness) -> None:
    """Failed is left on request, and the request is acknowledged."""
    tenant.commit({"deploy/all.yaml": deployment()})
    async with tenant.running(rollout_seconds=1.0):
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Failed")
    async with tenant.running(rollout_seconds=600.0):
        await tenant.phase("Deploying")
    async with tenant.running(rollout_seconds=3.0):
        await tenant.phase("Failed")
        patch = {"metadata": {"annotations": {"windlass.dev/retryAt": "now"}}}
        await tenant.patch(ENVIRONMENTS, "one", patch, tenant.namespace)
        found = await tenant.phase("Deploying")
        assert found["status"]["lastHandledRetryAt"] == "now"


async def _age(tenant: EnvironmentHarness, place: str) -> None:
    """Let the revision in `place` have begun long ago."""
    kept = await tenant.api.get(CONFIG_MAPS, "windlass-inventory", place)
    revision = {**json.loads(kept["data"]["revision"]), "began": "2026-01-01T00:00:00Z"}
    patch = {"data": {"revision": json.dumps(revision)}}
    await tenant.patch(CONFIG_MAPS, "windlass-inventory", patch, place)


async def test_a_workload_that_somebody_deletes_is_no_alarm(tenant: EnvironmentHarness) -> None:
    """It comes back with one DriftCorrected; an old revision is neither stuck nor Degraded."""
    tenant.commit({"deploy/all.yaml": deployment()})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.started()
        place = await tenant.place()
        old = await tenant.api.get(DEPLOYMENTS, "web", place)
    await _age(tenant, place)
    async with tenant.running() as controller:
        await tenant.passes(controller, 1)
        await tenant.api.delete(DEPLOYMENTS, "web", place)

        async def again() -> bool:
            try:
                found = await tenant.api.get(DEPLOYMENTS, "web", place)
            except NotFound:
                return False
            return bool(found["metadata"]["uid"] != old["metadata"]["uid"])

        await eventually(again, "the Deployment is back")
        found = await tenant.phase("Deploying")
        await _events(tenant, "DriftCorrected")
        await tenant.started()
        assert not await tenant.events("Degraded")
        assert not await tenant.events("RolloutStuck")
    rows = {row["type"]: row for row in found["status"]["conditions"]}
    assert rows["DeploymentReady"]["reason"] == "RolloutProgressing"
    assert rows["Ready"]["status"] == "False"


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


@pytest.mark.parametrize("says_replicas", [False, True])
async def test_an_autoscaler_that_takes_over_is_no_drift(
    tenant: EnvironmentHarness, says_replicas: bool
) -> None:
    """The number of replicas passes to it without an Event; a real edit still makes one."""
    manifest = deployment() if says_replicas else deployment().replace('"replicas":1,', "")
    tenant.commit({"deploy/all.yaml": _autoscaled(manifest)})
    async with tenant.running() as controller:
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.started()
        place = await tenant.place()
        await tenant.passes(controller, 2)
        number = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}}
        number["metadata"] = {"name": "web", "namespace": place}
        await tenant.api.apply(DEPLOYMENTS, number, field_manager="scaler")
        await tenant.passes(controller, 2)
        # As the autoscaler does it.
        scale = {"spec": {"replicas": 3}}
        await tenant.patch(DEPLOYMENTS, "web", scale, place, subresource="scale")
        await tenant.started()
        await tenant.passes(controller, 2)
        live = await tenant.api.get(DEPLOYMENTS, "web", place)
        assert live["spec"]["replicas"] == 3
        assert not await tenant.events("DriftCorrected")
        image = [{"name": "main", "image": "registry.invalid/web:other"}]
        edit = {"spec": {"template": {"spec": {"containers": image}}}}
        await tenant.patch(DEPLOYMENTS, "web", edit, place)
        assert len(await _events(tenant, "DriftCorrected")) == 1


async def test_the_revision_never_falls(tenant: EnvironmentHarness) -> None:
    """Also not when the namespace, which counts them, was deleted by hand."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        second = tenant.commit({"deploy/all.yaml": deployment()})
        before = await tenant.started(commit=second)
        place = await tenant.place()
        assert before["status"]["revision"] == 2
        await tenant.api.delete(NAMESPACES, place)
        seen: list[int] = []

        async def anew() -> Any:
            found = await tenant.get()
            seen.append(found["status"]["revision"])
            is_new = found["status"]["namespaceUID"] != before["status"]["namespaceUID"]
            return found if is_new and len(set(seen)) > 1 else None

        found = await eventually(anew, "a new namespace with a revision")
        assert found["status"]["revision"] == 3
        assert seen == sorted(seen)
        await tenant.started()
