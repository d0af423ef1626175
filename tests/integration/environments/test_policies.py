"""The isolation of an Environment: its defaults, corrected drift, and changes by the spec."""

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
_EGRESS_RULE = {"name": "mail", "cidrs": ["192.0.2.0/24"], "ports": [{"port": 25}]}


async def _quota(tenant: EnvironmentHarness, namespace: str) -> dict[str, Any]:
    live = await tenant.api.get(QUOTAS, "default-quota", namespace)
    hard: dict[str, Any] = live["spec"]["hard"]
    return hard


@pytest.mark.scenario("E33", "E35")
async def test_the_isolation_has_its_defaults(tenant: EnvironmentHarness) -> None:
    """Two CPUs, 4 and 8 GiB, 20 pods, storage, no node ports; a pod gets default limits."""
    tenant.commit({"deploy/all.yaml": deployment()})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.wait_running()
        namespace = await tenant.environment_namespace()
        hard = await _quota(tenant, namespace)
        (pod,) = await tenant.pods(namespace)
        policies = {row["metadata"]["name"] for row in await tenant.api.list(POLICIES, namespace)}
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
    """Twenty pods without resource requests all start; one more does not."""
    tenant.commit({"deploy/all.yaml": deployment(replicas=20)})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.wait_running()
        namespace = await tenant.environment_namespace()
        pods = await tenant.pods(namespace)
        used = (await tenant.api.get(QUOTAS, "default-quota", namespace))["status"]["used"]
        tenant.commit({"deploy/all.yaml": deployment(replicas=21)})

        async def refused() -> bool:
            live = await tenant.api.get(DEPLOYMENTS, "web", namespace)
            rows = live["status"].get("conditions") or []
            texts = [row["message"] for row in rows if row["type"] == "ReplicaFailure"]
            return any("exceeded quota" in text and "pods=20" in text for text in texts)

        await eventually(refused, "the pod is refused because of the number of pods")
    assert len(pods) == 20
    assert used["limits.ephemeral-storage"] == "20Gi"


@pytest.mark.scenario("E34", "E39", "E40")
async def test_settings_of_a_project_apply_to_all_of_its_environments(
    tenant: EnvironmentHarness,
) -> None:
    """Quota and egress rules follow the Project; an Environment stays below the maximum."""
    async with tenant.running():
        await tenant.apply(
            tenant.project(network={"egress": [_EGRESS_RULE]}),
            tenant.environment("one"),
            tenant.environment("two"),
        )
        namespaces = []
        for name in ("one", "two"):
            await tenant.phase("Ready", name)
            namespaces.append(await tenant.environment_namespace(name))
            await tenant.api.get(POLICIES, "allow-egress-mail", namespaces[-1])
        await tenant.apply(tenant.project(resources={"defaultQuota": {"pods": 11}}))
        for namespace in namespaces:
            await tenant.wait_deleted(POLICIES, "allow-egress-mail", namespace)

            async def eleven(namespace: str = namespace) -> bool:
                return bool((await _quota(tenant, namespace))["pods"] == "11")

            await eventually(eleven, "the new quota")
        assert not await tenant.events("DriftCorrected")
        await tenant.apply(tenant.environment("one", quota={"pods": 12}))
        refused = await tenant.phase("Failed", "one")
        assert "QuotaAboveMaximum" in str(refused["status"]["conditions"])
        assert "maxQuota.pods" in refused["status"]["message"]
        assert (await _quota(tenant, namespaces[0]))["pods"] == "11"
        await tenant.apply(tenant.environment("one", quota={"pods": 5}))
        await tenant.phase("Ready", "one")
        assert (await _quota(tenant, namespaces[0]))["pods"] == "5"
        assert (await _quota(tenant, namespaces[1]))["pods"] == "11"


@pytest.mark.scenario("E39")
async def test_an_egress_rule_into_private_addresses_is_refused(tenant: EnvironmentHarness) -> None:
    """EgressNotAllowed names the rule; the policies in force stay in force."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        rule = {"name": "inside", "cidrs": ["10.0.0.0/8"]}
        await tenant.apply(tenant.project(network={"egress": [rule]}))
        environment = await tenant.condition("PoliciesReady", "EgressNotAllowed")
        assert environment["status"]["phase"] == "Failed"
        assert "inside" in environment["status"]["message"]
        names = {row["metadata"]["name"] for row in await tenant.api.list(POLICIES, namespace)}
        assert "allow-egress-inside" not in names
        assert "default-policy" in names


@pytest.mark.scenario("E36", "E37")
async def test_drift_of_the_isolation_is_corrected_at_once(tenant: EnvironmentHarness) -> None:
    """Edited or deleted, quota and policies are restored with one Event each; labels stay."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        foreign = {"metadata": {"labels": {"team.example/cost": "42"}}}
        await tenant.patch(QUOTAS, "default-quota", foreign, namespace)
        spec = {"spec": {"hard": {"pods": "99", "count/secrets": "1000"}}}
        await tenant.patch(QUOTAS, "default-quota", spec, namespace)

        async def restored() -> bool:
            hard = await _quota(tenant, namespace)
            return bool(hard["pods"] == "20" and hard["count/secrets"] != "1000")

        await eventually(restored, "the quota is restored")
        restored_quota = await tenant.api.get(QUOTAS, "default-quota", namespace)
        assert restored_quota["metadata"]["labels"]["team.example/cost"] == "42"
        opened = {"spec": {"policyTypes": ["Ingress"], "ingress": [{}]}}
        await tenant.patch(POLICIES, "default-policy", opened, namespace)
        await tenant.api.delete(QUOTAS, "default-quota", namespace)
        await tenant.api.delete(POLICIES, "allow-dns", namespace)

        async def all_restored() -> bool:
            policies = {
                row["metadata"]["name"]: row for row in await tenant.api.list(POLICIES, namespace)
            }
            types = (policies.get("default-policy") or {}).get("spec", {}).get("policyTypes")
            quotas = await tenant.api.list(QUOTAS, namespace)
            return "allow-dns" in policies and types == ["Ingress", "Egress"] and bool(quotas)

        await eventually(all_restored, "policies and quota are restored")

        async def reported() -> list[str]:
            notes = [event["note"] for event in await tenant.events("DriftCorrected")]
            return sorted(" ".join(note.split()[2:4]) for note in notes) if len(notes) >= 3 else []

        assert await eventually(reported, "three events") == [
            "NetworkPolicy allow-dns",
            "NetworkPolicy default-policy",
            "ResourceQuota default-quota",
        ]
        await tenant.phase("Ready")


@pytest.mark.scenario("E37")
async def test_fields_of_other_managers_are_kept(tenant: EnvironmentHarness) -> None:
    """Fields of another field manager survive reconciles and corrections."""
    async with tenant.running() as controller:
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        patch = {"metadata": {"labels": {"billing": "x"}, "annotations": {"note": "y"}}}
        await tenant.patch(NAMESPACES, namespace, patch)
        await tenant.patch(_LIMITS, "default-limits", patch, namespace)
        await tenant.reconcile_times(controller, 3)
        level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
        await tenant.patch(NAMESPACES, namespace, level)

        async def restored() -> Any:
            live = await tenant.api.get(NAMESPACES, namespace)
            labels = live["metadata"]["labels"]
            is_restored = labels["pod-security.kubernetes.io/enforce"] == "restricted"
            return live if is_restored else None

        restored_namespace = await eventually(restored, "the Pod Security level is restored")

        async def reported() -> list[str]:
            return [event["note"] for event in await tenant.events("DriftCorrected")]

        assert await eventually(reported, "an Event") == [f"Drift corrected: Namespace {namespace}"]
        assert restored_namespace["metadata"]["labels"]["billing"] == "x"
        assert restored_namespace["metadata"]["annotations"]["note"] == "y"
        limits = await tenant.api.get(_LIMITS, "default-limits", namespace)
        assert limits["metadata"]["labels"]["billing"] == "x"


@pytest.mark.parametrize("level", ["privileged", None])
async def test_a_pod_security_level_edited_before_a_restart_is_reported(
    tenant: EnvironmentHarness, level: str | None
) -> None:
    """Edited or deleted, it is restored with an Event; a new level of the Project is no drift."""
    name = "pod-security.kubernetes.io/enforce"
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
    await tenant.patch(NAMESPACES, namespace, {"metadata": {"labels": {name: level}}})

    async def has_level(desired: str) -> bool:
        labels = (await tenant.api.get(NAMESPACES, namespace))["metadata"]["labels"]
        return bool(labels.get(name) == desired)

    async def notes() -> list[str]:
        return [event["note"] for event in await tenant.events("DriftCorrected")]

    async with tenant.running():
        await eventually(lambda: has_level("restricted"), "the level is restored")
        expected = [f"Drift corrected: Namespace {namespace}"]
        assert await eventually(notes, "an Event") == expected
    await tenant.apply(tenant.project(security={"podSecurity": "baseline"}))
    async with tenant.running():
        await eventually(lambda: has_level("baseline"), "the level of the Project")
        await tenant.request_reconcile()
        assert await notes() == expected
        assert tenant.metrics.drift_corrections.child(("Namespace",))._value.get() == 0


async def test_a_binding_to_another_role_is_replaced(tenant: EnvironmentHarness) -> None:
    """The role of a binding is immutable; a foreign binding of our name is replaced."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
    live = await tenant.api.get(_BINDINGS, "windlass-applier", namespace)
    await tenant.api.delete(_BINDINGS, "windlass-applier", namespace)
    other = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": "windlass-applier",
            "namespace": namespace,
            "labels": live["metadata"]["labels"],
        },
        "roleRef": {**live["roleRef"], "name": "view"},
        "subjects": [],
    }
    await tenant.api.apply(_BINDINGS, other, field_manager="another-client")

    async def restored() -> bool:
        bindings = await tenant.api.list(_BINDINGS, namespace)
        rows = {row["metadata"]["name"]: row for row in bindings}
        binding = rows.get("windlass-applier")
        return bool(binding and binding["roleRef"] == live["roleRef"])

    async with tenant.running():
        await eventually(restored, "the binding is restored")
        await tenant.request_reconcile()
        await tenant.phase("Ready")
