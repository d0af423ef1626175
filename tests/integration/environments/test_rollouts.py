"""Whether what was applied runs: the controller-manager makes pods, the tests play kubelet."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.previews import DEPLOYMENTS, ENVIRONMENTS, Previews, deployment
from tests.support.waiting import eventually

pytestmark = pytest.mark.cluster


@pytest.mark.scenario("E73", "E76")
async def test_an_old_pod_does_not_make_a_new_revision_ready(tenant: Previews) -> None:
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


async def _events(tenant: Previews, reason: str) -> list[Any]:
    async def found() -> list[Any]:
        return await tenant.events(reason)

    return list(await eventually(found, f"an event {reason}"))


@pytest.mark.scenario("E74")
async def test_the_cause_is_told_by_the_pods_and_heals_with_them(tenant: Previews) -> None:
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
            assert await tenant.pods_say(place, ready=False, **container) == 1
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
    tenant: Previews, reason: str, container: dict[str, Any]
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
async def test_a_crash_after_it_ran_is_degraded_and_heals(tenant: Previews) -> None:
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


async def test_a_retry_gives_a_stuck_revision_its_time_again(tenant: Previews) -> None:
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
