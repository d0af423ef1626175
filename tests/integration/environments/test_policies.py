"""The fence of an Environment: complete from the start, kept, and changed where it is told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.environments.environment_harness import (
    DEPLOYMENTS,
    NAMESPACES,
    POLICIES,
    QUOTAS,
    EnvironmentHarness,
    deployment,
)
from tests.support.processes.polling import eventually
from windlass.objects.names import GVR

pytestmark = pytest.mark.cluster

_LIMITS = GVR("", "v1", "limitranges")
_BINDINGS = GVR("rbac.authorization.k8s.io", "v1", "rolebindings")
_DOOR = {"name": "mail", "cidrs": ["192.0.2.0/24"], "ports": [{"port": 25}]}


async def _quota(tenant: EnvironmentHarness, place: str) -> dict[str, Any]:
    found = await tenant.api.get(QUOTAS, "default-quota", place)
    hard: dict[str, Any] = found["spec"]["hard"]
    return hard


@pytest.mark.scenario("E33", "E35")
async def test_the_fence_stands_with_its_defaults(tenant: EnvironmentHarness) -> None:
    """Two CPUs, 4 and 8 GiB, 20 pods, storage, no way out; a pod that says nothing is let in."""
    tenant.commit({"deploy/all.yaml": deployment()})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.started()
        place = await tenant.place()
        hard = await _quota(tenant, place)
        (pod,) = await tenant.pods(place)
        policies = {row["metadata"]["name"] for row in await tenant.api.list(POLICIES, place)}
    assert hard["requests.cpu"] == "2"
    assert hard["requests.memory"] == "4Gi"
    assert hard["limits.memory"] == "8Gi"
    assert hard["pods"] == "20"
    assert hard["requests.storage"] == "20Gi"
    assert hard["services.loadbalancers"] == hard["services.nodeports"] == "0"
    assert pod["spec"]["containers"][0]["resources"]["limits"]["memory"] == "400Mi"
    assert policies == {
        "default-policy",
        "allow-same-namespace",
        "allow-dns",
        "allow-web-egress",
    }


async def test_as_many_pods_fit_as_the_default_quota_counts(tenant: EnvironmentHarness) -> None:
    """Twenty pods that say nothing about resources all start; one more does not."""
    tenant.commit({"deploy/all.yaml": deployment(replicas=20)})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.started()
        place = await tenant.place()
        pods = await tenant.pods(place)
        used = (await tenant.api.get(QUOTAS, "default-quota", place))["status"]["used"]
        tenant.commit({"deploy/all.yaml": deployment(replicas=21)})

        async def refused() -> bool:
            live = await tenant.api.get(DEPLOYMENTS, "web", place)
            rows = live["status"].get("conditions") or []
            texts = [row["message"] for row in rows if row["type"] == "ReplicaFailure"]
            return any("exceeded quota" in text and "pods=20" in text for text in texts)

        await eventually(refused, "the pod too many is refused for the number of pods")
    assert len(pods) == 20
    assert used["limits.ephemeral-storage"] == "20Gi"


@pytest.mark.scenario("E34", "E39", "E40")
async def test_what_a_project_says_holds_for_all_of_its_environments(
    tenant: EnvironmentHarness,
) -> None:
    """Quota and doors follow the Project; an Environment stays below the maximum."""
    async with tenant.running():
        await tenant.apply(
            tenant.project(network={"egress": [_DOOR]}),
            tenant.environment("one"),
            tenant.environment("two"),
        )
        places = []
        for name in ("one", "two"):
            await tenant.phase("Ready", name)
            places.append(await tenant.place(name))
            await tenant.api.get(POLICIES, "allow-egress-mail", places[-1])
        await tenant.apply(tenant.project(resources={"defaultQuota": {"pods": 11}}))
        for place in places:
            await tenant.gone(POLICIES, "allow-egress-mail", place)

            async def eleven(place: str = place) -> bool:
                return bool((await _quota(tenant, place))["pods"] == "11")

            await eventually(eleven, "the new quota")
        assert not await tenant.events("DriftCorrected")
        await tenant.apply(tenant.environment("one", quota={"pods": 12}))
        refused = await tenant.phase("Failed", "one")
        assert "QuotaAboveMaximum" in str(refused["status"]["conditions"])
        assert "maxQuota.pods" in refused["status"]["message"]
        assert (await _quota(tenant, places[0]))["pods"] == "11"
        await tenant.apply(tenant.environment("one", quota={"pods": 5}))
        await tenant.phase("Ready", "one")
        assert (await _quota(tenant, places[0]))["pods"] == "5"
        assert (await _quota(tenant, places[1]))["pods"] == "11"


@pytest.mark.scenario("E39")
async def test_a_door_into_private_space_is_not_opened(tenant: EnvironmentHarness) -> None:
    """EgressNotAllowed names the door; what was in force stays in force."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        place = await tenant.place()
        door = {"name": "inside", "cidrs": ["10.0.0.0/8"]}
        await tenant.apply(tenant.project(network={"egress": [door]}))
        found = await tenant.condition("PoliciesReady", "EgressNotAllowed")
        assert found["status"]["phase"] == "Failed"
        assert "inside" in found["status"]["message"]
        names = {row["metadata"]["name"] for row in await tenant.api.list(POLICIES, place)}
        assert "allow-egress-inside" not in names
        assert "default-policy" in names


@pytest.mark.scenario("E36", "E37")
async def test_what_somebody_changes_is_put_right_at_once(tenant: EnvironmentHarness) -> None:
    """Edited and deleted, quota and policy come back with one event each; what is added stays."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        place = await tenant.place()
        foreign = {"metadata": {"labels": {"team.example/cost": "42"}}}
        await tenant.patch(QUOTAS, "default-quota", foreign, place)
        spec = {"spec": {"hard": {"pods": "99", "count/secrets": "1000"}}}
        await tenant.patch(QUOTAS, "default-quota", spec, place)

        async def restored() -> bool:
            hard = await _quota(tenant, place)
            return bool(hard["pods"] == "20" and hard["count/secrets"] != "1000")

        await eventually(restored, "the quota is back")
        kept = await tenant.api.get(QUOTAS, "default-quota", place)
        assert kept["metadata"]["labels"]["team.example/cost"] == "42"
        opened = {"spec": {"policyTypes": ["Ingress"], "ingress": [{}]}}
        await tenant.patch(POLICIES, "default-policy", opened, place)
        await tenant.api.delete(QUOTAS, "default-quota", place)
        await tenant.api.delete(POLICIES, "allow-dns", place)

        async def all_back() -> bool:
            found = {row["metadata"]["name"]: row for row in await tenant.api.list(POLICIES, place)}
            types = (found.get("default-policy") or {}).get("spec", {}).get("policyTypes")
            quotas = await tenant.api.list(QUOTAS, place)
            return "allow-dns" in found and types == ["Ingress", "Egress"] and bool(quotas)

        await eventually(all_back, "policies and quota are back")

        async def told() -> list[str]:
            notes = [event["note"] for event in await tenant.events("DriftCorrected")]
            return sorted(" ".join(note.split()[2:4]) for note in notes) if len(notes) >= 3 else []

        assert await eventually(told, "three events") == [
            "NetworkPolicy allow-dns",
            "NetworkPolicy default-policy",
            "ResourceQuota default-quota",
        ]
        await tenant.phase("Ready")


@pytest.mark.scenario("E37")
async def test_fields_of_others_are_theirs(tenant: EnvironmentHarness) -> None:
    """An extra field of another manager survives passes and corrections."""
    async with tenant.running() as controller:
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        place = await tenant.place()
        patch = {"metadata": {"labels": {"billing": "x"}, "annotations": {"note": "y"}}}
        await tenant.patch(NAMESPACES, place, patch)
        await tenant.patch(_LIMITS, "default-limits", patch, place)
        await tenant.passes(controller, 3)
        level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
        await tenant.patch(NAMESPACES, place, level)

        async def restored() -> Any:
            found = await tenant.api.get(NAMESPACES, place)
            labels = found["metadata"]["labels"]
            is_back = labels["pod-security.kubernetes.io/enforce"] == "restricted"
            return found if is_back else None

        found = await eventually(restored, "the level is back")

        async def told() -> list[str]:
            return [event["note"] for event in await tenant.events("DriftCorrected")]

        assert await eventually(told, "an Event") == [f"Drift corrected: Namespace {place}"]
        assert found["metadata"]["labels"]["billing"] == "x"
        assert found["metadata"]["annotations"]["note"] == "y"
        limits = await tenant.api.get(_LIMITS, "default-limits", place)
        assert limits["metadata"]["labels"]["billing"] == "x"


async def test_a_binding_to_another_role_is_made_anew(tenant: EnvironmentHarness) -> None:
    """What a binding gives cannot be edited; somebody else's binding of our name goes."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        place = await tenant.place()
    live = await tenant.api.get(_BINDINGS, "windlass-applier", place)
    await tenant.api.delete(_BINDINGS, "windlass-applier", place)
    other = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": "windlass-applier",
            "namespace": place,
            "labels": live["metadata"]["labels"],
        },
        "roleRef": {**live["roleRef"], "name": "view"},
        "subjects": [],
    }
    await tenant.api.apply(_BINDINGS, other, field_manager="somebody")

    async def restored() -> bool:
        found = await tenant.api.list(_BINDINGS, place)
        rows = {row["metadata"]["name"]: row for row in found}
        binding = rows.get("windlass-applier")
        return bool(binding and binding["roleRef"] == live["roleRef"])

    async with tenant.running():
        await eventually(restored, "the binding is ours again")
        await tenant.poke()
        await tenant.phase("Ready")
