"""Isolation against other writers: drift is corrected, and a repeated writer is named."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.environments.environment_harness import (
    NAMESPACES,
    POLICIES,
    PROJECTS,
    QUOTAS,
    EnvironmentHarness,
)
from tests.support.processes.polling import eventually
from windlass.environments.isolation import (
    drift_rules,
    isolation_writer,
    network_policies,
    quota,
)
from windlass.environments.isolation.isolation_writer import IsolationWriter
from windlass.environments.isolation.network_policies import ClusterNetwork
from windlass.kube.errors import NotFound
from windlass.objects.names import GVR
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

_LIMITS = GVR("", "v1", "limitranges")
_BINDINGS = GVR("rbac.authorization.k8s.io", "v1", "rolebindings")
_OPEN = {"spec": {"ingress": [{}], "egress": [{}]}}
_OPEN_INGRESS = {"spec": {"ingress": [{}]}}


class Kubectl:
    """A user with kubectl."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    async def run(self, *arguments: str, stdin: str = "") -> None:
        process = await asyncio.create_subprocess_exec(
            self._cluster.kubectl,
            f"--kubeconfig={self._cluster.admin_kubeconfig}",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate(stdin.encode())
        assert process.returncode == 0, output.decode()

    async def patch(self, kind: str, name: str, namespace: str, patch: dict[str, Any]) -> None:
        await self.run(
            "patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(patch)
        )


@pytest.fixture
def kubectl(cluster: LocalCluster) -> Kubectl:
    """A user with every right."""
    return Kubectl(cluster)


async def _create_isolated(tenant: EnvironmentHarness, **spec: Any) -> str:
    """The namespace of an Environment whose isolation is in force."""
    await tenant.apply(tenant.project(), tenant.environment(**spec))
    await tenant.phase("Ready")
    return await tenant.environment_namespace()


async def _wait_restored(
    tenant: EnvironmentHarness,
    gvr: GVR,
    name: str,
    namespace: str,
    is_right: Callable[[Any], bool],
) -> Any:
    """The object, once `is_right` holds."""

    async def poll() -> Any:
        try:
            live = await tenant.api.get(gvr, name, namespace)
        except NotFound:
            return None
        return live if is_right(live) else None

    return await eventually(poll, f"{name} is restored")


async def _notes(tenant: EnvironmentHarness, reason: str, number: int = 1) -> list[str]:
    async def poll() -> list[str]:
        notes = [event["note"] for event in await tenant.events(reason)]
        return sorted(notes) if len(notes) >= number else []

    return list(await eventually(poll, f"{number} Events {reason}"))


@pytest.mark.scenario("E36")
async def test_rules_that_a_user_adds_to_a_policy_are_removed(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """`kubectl patch` opens default-policy by unowned fields; they are removed, with an Event."""
    async with tenant.running():
        namespace = await _create_isolated(tenant)
        before = await tenant.api.get(POLICIES, "default-policy", namespace)
        await kubectl.patch("netpol", "default-policy", namespace, _OPEN)
        await _wait_restored(
            tenant,
            POLICIES,
            "default-policy",
            namespace,
            lambda live: bool(live["spec"] == before["spec"]),
        )
        assert await _notes(tenant, "DriftCorrected") == [
            "Drift corrected: NetworkPolicy default-policy (changed by kubectl-patch)"
        ]
        await tenant.request_reconcile()
        environment = await tenant.phase("Ready")
    rows = {row["type"]: row for row in environment["status"]["conditions"]}
    assert rows["PoliciesReady"]["reason"] == "PoliciesApplied"


@pytest.mark.scenario("E36")
async def test_the_operator_owns_every_field_of_the_isolation(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """Selector, quota, limits and binding: each addition is removed, labels of others stay."""
    label = {"metadata": {"labels": {"team.example/cost": "42"}}}
    everywhere = [{"podSelector": {}, "namespaceSelector": {}}]
    edits: list[tuple[GVR, str, dict[str, Any]]] = [
        (POLICIES, "allow-same-namespace", {"spec": {"ingress": [{"from": everywhere}]}}),
        (POLICIES, "default-policy", {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}),
        (
            QUOTAS,
            "default-quota",
            {"spec": {"hard": {"services.nodeports": "5", "count/pods": "9"}}},
        ),
        (_LIMITS, "default-limits", {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "9"}}]}}),
        (
            _BINDINGS,
            "windlass-applier",
            {"subjects": [{"kind": "User", "apiGroup": _BINDINGS.group, "name": "mallory"}]},
        ),
    ]
    async with tenant.running():
        namespace = await _create_isolated(tenant)
        before = [await tenant.api.get(gvr, name, namespace) for gvr, name, _ in edits]
        for gvr, name, edit in edits:
            await kubectl.patch(gvr.resource, name, namespace, {**edit, **label})
        for (gvr, name, _), original in zip(edits, before, strict=True):
            restored = await _wait_restored(
                tenant,
                gvr,
                name,
                namespace,
                lambda live, original=original: (
                    drift_rules.exclusive_content(live) == drift_rules.exclusive_content(original)
                ),
            )
            assert restored["metadata"]["labels"]["team.example/cost"] == "42"
        await _notes(tenant, "DriftCorrected", len(edits))


async def test_drift_from_before_a_restart_is_corrected(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """A restart reverts the edit and reports its author; the next reconcile writes nothing."""
    async with tenant.running():
        namespace = await _create_isolated(tenant)
    await kubectl.patch("netpol", "default-policy", namespace, _OPEN)
    before = await tenant.api.get(QUOTAS, "default-quota", namespace)
    await tenant.api.delete(QUOTAS, "default-quota", namespace)
    # Scopes are immutable: a quota with a scope has to be replaced.
    scoped = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "default-quota", "namespace": namespace},
        "spec": {"hard": {"pods": "1000"}, "scopes": ["BestEffort"]},
    }
    await kubectl.run("create", "-f", "-", stdin=json.dumps(scoped))
    async with tenant.running() as controller:
        await _wait_restored(
            tenant,
            POLICIES,
            "default-policy",
            namespace,
            lambda live: "ingress" not in live["spec"],
        )
        await _wait_restored(
            tenant,
            QUOTAS,
            "default-quota",
            namespace,
            lambda live: bool(live["spec"] == before["spec"]),
        )
        assert len(await _notes(tenant, "DriftCorrected")) >= 1
        await tenant.phase("Ready")
        await tenant.reconcile_times(controller, 2)
        tenant.connection.recorded.clear()
        await tenant.reconcile_times(controller, 3)
        assert not [
            request for request in tenant.connection.requests_for(namespace) if request.is_write
        ]


async def test_defaults_of_the_api_server_are_no_drift(
    tenant: EnvironmentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defaults, empty members and other spellings of a quantity are written once only."""
    computed = quota.container_limit_range

    def incomplete(*arguments: Any) -> dict[str, dict[str, str]]:
        row = computed(*arguments)
        del row["default"]["memory"], row["defaultRequest"]["memory"]
        return row

    # The API server fills both in from the maximum.
    monkeypatch.setattr(quota, "container_limit_range", incomplete)
    peer = {"podSelector": {"matchLabels": {}}, "namespaceSelector": {}}
    monkeypatch.setattr(network_policies, "_DNS_PEERS", (peer,))
    project = tenant.project(resources={"defaultQuota": {"cpu": "2000m"}})
    for _ in range(2):
        async with tenant.running(poll_seconds=3600.0) as controller:
            await tenant.apply(project, tenant.environment())
            await tenant.phase("Ready")
            await tenant.reconcile_times(controller, 2)
            tenant.connection.recorded.clear()
            await tenant.reconcile_times(controller, 3)
            namespace = await tenant.environment_namespace()
            assert not [
                request for request in tenant.connection.requests_for(namespace) if request.is_write
            ]
    assert [event["note"] for event in await tenant.events("DriftCorrected")] == []


async def test_a_writer_that_keeps_changing_the_isolation_is_named(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """After five corrections: Contested with field manager and remedy; still corrected."""
    async with tenant.running():
        namespace = await _create_isolated(tenant)
        for _ in range(drift_rules.CONTESTED_AFTER):
            await kubectl.patch("netpol", "default-policy", namespace, _OPEN)
            await _wait_restored(
                tenant,
                POLICIES,
                "default-policy",
                namespace,
                lambda live: "ingress" not in live["spec"],
            )
        environment = await tenant.condition("PoliciesReady", "Contested")
        await kubectl.patch("netpol", "default-policy", namespace, _OPEN)
        await _wait_restored(
            tenant,
            POLICIES,
            "default-policy",
            namespace,
            lambda live: "ingress" not in live["spec"],
        )
    rows = {row["type"]: row for row in environment["status"]["conditions"]}
    assert rows["Ready"]["status"] == "False"
    assert "NetworkPolicy default-policy" in rows["PoliciesReady"]["message"]
    assert "field manager kubectl-patch" in rows["PoliciesReady"]["message"]
    assert "spec.network of the Project" in rows["PoliciesReady"]["message"]


def _policy(namespace: str, name: str, **spec: Any) -> str:
    return json.dumps(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress"], **spec},
        }
    )


async def test_a_policy_that_another_client_adds_is_reported(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """In a trusted Environment it stays, and PoliciesReady names it."""

    async def message() -> str:
        rows = {row["type"]: row for row in (await tenant.get())["status"]["conditions"]}
        return str(rows["PoliciesReady"]["message"])

    async with tenant.running(poll_seconds=3600.0):
        namespace = await _create_isolated(tenant)
        await kubectl.run("create", "-f", "-", stdin=_policy(namespace, "open", ingress=[{}]))

        async def named() -> bool:
            return "NetworkPolicy not managed by windlass: open (by kubectl" in await message()

        await eventually(named, "the policy is named")
        await tenant.phase("Ready")
        await kubectl.run("delete", "netpol", "open", "-n", namespace)

        async def no_longer_named() -> bool:
            return "not managed" not in await message()

        await eventually(no_longer_named, "it is no longer named")


async def test_a_failure_hides_neither_a_contest_nor_a_policy_of_others(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """Contested names the policy of another client, and a refused quota names both."""

    def message(environment: Any) -> str:
        rows = {row["type"]: row for row in environment["status"]["conditions"]}
        return str(rows["PoliciesReady"]["message"])

    async with tenant.running(poll_seconds=3600.0):
        namespace = await _create_isolated(tenant)
        await kubectl.run("create", "-f", "-", stdin=_policy(namespace, "open", ingress=[{}]))
        for _ in range(drift_rules.CONTESTED_AFTER):
            await _open_and_wait_restored(tenant, kubectl, namespace)
        contested = message(await tenant.condition("PoliciesReady", "Contested"))
        await tenant.apply(tenant.environment(quota={"pods": 9999}))
        refused = message(await tenant.condition("PoliciesReady", "QuotaAboveMaximum"))
    other = "NetworkPolicy not managed by windlass: open (by kubectl"
    contest = "NetworkPolicy default-policy was restored"
    assert contest in contested
    assert other in contested
    assert "spec.quota.pods is 9999" in refused
    assert contest in refused
    assert other in refused


async def test_an_untrusted_environment_loses_allowing_policies_of_others(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """A policy that allows traffic is removed with a Warning; one that denies stays, reported."""
    async with tenant.running(poll_seconds=3600.0):
        namespace = await _create_isolated(tenant, trust="untrusted")
        await kubectl.run("create", "-f", "-", stdin=_policy(namespace, "deny"))
        await kubectl.run("create", "-f", "-", stdin=_policy(namespace, "open", ingress=[{}]))
        await tenant.wait_deleted(POLICIES, "open", namespace)
        [note] = await _notes(tenant, "PolicyRemoved")
        await tenant.request_reconcile()
        environment = await tenant.phase("Ready")
        await tenant.api.get(POLICIES, "deny", namespace)
    rows = {row["type"]: row for row in environment["status"]["conditions"]}
    assert note.startswith("Removed NetworkPolicy open (added by kubectl")
    assert "deny (by kubectl" in rows["PoliciesReady"]["message"]
    [event] = await tenant.events("PolicyRemoved")
    assert event["type"] == "Warning"


@pytest.mark.scenario("E34")
async def test_a_changed_quota_is_not_reported_as_a_failure(
    tenant: EnvironmentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the API server enforces the new quota, the conditions stay as they were."""
    # The controller manager counts in its own time; what lasts too long is rightly reported.
    monkeypatch.setattr(isolation_writer, "_SETTLING_SECONDS", 600.0)
    async with tenant.running(poll_seconds=3600.0):
        namespace = await _create_isolated(tenant)
        for pods in (11, 12):
            tenant.connection.recorded.clear()
            await tenant.apply(tenant.project(resources={"defaultQuota": {"pods": pods}}))
            await _wait_restored(
                tenant,
                QUOTAS,
                "default-quota",
                namespace,
                lambda live, pods=pods: (live["status"]["hard"] or {})["pods"] == str(pods),
            )
            await tenant.request_reconcile()
            # This one's alone: the controller also deletes what earlier tests left.
            own = f"/namespaces/{tenant.namespace}/environments/one/status"
            written = [request.body for request in tenant.connection.requests_for(own)]
            assert not [body for body in written if "conditions" in body["status"]], written
        assert not await tenant.events("PolicyApplyFailed")


async def _open_and_wait_restored(
    tenant: EnvironmentHarness, kubectl: Kubectl, namespace: str
) -> None:
    """Open default-policy by hand, and wait until it denies everything again."""
    await kubectl.patch("netpol", "default-policy", namespace, _OPEN)
    await _wait_restored(
        tenant,
        POLICIES,
        "default-policy",
        namespace,
        lambda live: "ingress" not in live["spec"] and "egress" not in live["spec"],
    )


async def _policy_specs(tenant: EnvironmentHarness, namespace: str) -> dict[str, Any]:
    """The spec of every NetworkPolicy by its name."""
    policies = await tenant.api.list(POLICIES, namespace)
    return {row["metadata"]["name"]: row["spec"] for row in policies}


@pytest.mark.scenario("E36", "E39")
async def test_a_refused_quota_does_not_stop_the_repair_of_the_isolation(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """The last quota and policies are restored, and the refusal stays reported."""
    async with tenant.running(poll_seconds=3600.0):
        namespace = await _create_isolated(tenant)
        await tenant.apply(tenant.environment(quota={"pods": 9999}))
        await tenant.condition("PoliciesReady", "QuotaAboveMaximum")
        await kubectl.patch("quota", "default-quota", namespace, {"spec": {"hard": {"pods": "99"}}})
        await _wait_restored(
            tenant,
            QUOTAS,
            "default-quota",
            namespace,
            lambda live: bool(live["spec"]["hard"]["pods"] == "20"),
        )
        await _open_and_wait_restored(tenant, kubectl, namespace)
        await _notes(tenant, "DriftCorrected", 2)
        await tenant.condition("PoliciesReady", "QuotaAboveMaximum")


_EGRESS = [
    {"name": "db", "cidrs": ["198.51.100.0/24"]},
    {"name": "mail", "cidrs": ["203.0.113.0/24"], "untrusted": True},
]


async def test_a_lowered_trust_holds_while_the_quota_is_refused(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """A foreign policy and the egress of trusted code alone are removed; the old quota stays."""
    async with tenant.running(poll_seconds=3600.0):
        await tenant.apply(tenant.project(network={"egress": _EGRESS}))
        await tenant.apply(tenant.environment(quota={"memory": "4Gi"}))
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        before = await _policy_specs(tenant, namespace)
        await kubectl.run("create", "-f", "-", stdin=_policy(namespace, "open", ingress=[{}]))
        await tenant.apply(tenant.environment(quota={"memory": "4Gi"}, trust="untrusted"))
        await tenant.condition("PoliciesReady", "QuotaAboveMaximum")
        await tenant.wait_deleted(POLICIES, "open", namespace)
        await tenant.wait_deleted(POLICIES, "allow-egress-db", namespace)
        [note] = await _notes(tenant, "PolicyRemoved")
        hard = (await tenant.api.get(QUOTAS, "default-quota", namespace))["spec"]["hard"]
        policies = await _policy_specs(tenant, namespace)
    assert note.startswith("Removed NetworkPolicy open (added by kubectl")
    assert before.keys() - policies.keys() == {"allow-egress-db"}
    assert hard["requests.memory"] == "4Gi"


@pytest.mark.scenario("E40")
async def test_a_removed_egress_rule_closes_while_the_quota_is_refused(
    tenant: EnvironmentHarness,
) -> None:
    """What the Project no longer allows is closed at once."""
    async with tenant.running(poll_seconds=3600.0):
        await tenant.apply(tenant.project(network={"egress": _EGRESS}))
        await tenant.apply(tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        await tenant.apply(tenant.environment(quota={"pods": 9999}))
        await tenant.condition("PoliciesReady", "QuotaAboveMaximum")
        await tenant.apply(tenant.project(network={"egress": _EGRESS[1:]}))
        await tenant.wait_deleted(POLICIES, "allow-egress-db", namespace)
        await tenant.condition("PoliciesReady", "QuotaAboveMaximum")
        assert "allow-egress-mail" in await _policy_specs(tenant, namespace)


async def test_a_restart_with_a_refused_quota_closes_an_opened_policy(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """Every policy of the Project is restored; the quota, which is not known, stays."""
    async with tenant.running():
        namespace = await _create_isolated(tenant, quota={"pods": 7})
        before = await _policy_specs(tenant, namespace)
    await tenant.apply(tenant.environment(quota={"pods": 9999}))
    await kubectl.patch("netpol", "default-policy", namespace, _OPEN)
    await kubectl.patch("netpol", "allow-web-egress", namespace, {"spec": {"egress": [{}]}})
    async with tenant.running(poll_seconds=3600.0) as controller:
        for name in ("default-policy", "allow-web-egress"):
            await _wait_restored(
                tenant,
                POLICIES,
                name,
                namespace,
                lambda live, name=name: bool(live["spec"] == before[name]),
            )
        await tenant.condition("PoliciesReady", "QuotaAboveMaximum")
        assert await _notes(tenant, "DriftCorrected", 2) == [
            "Drift corrected: NetworkPolicy allow-web-egress (changed by kubectl-patch)",
            "Drift corrected: NetworkPolicy default-policy (changed by kubectl-patch)",
        ]
        await tenant.reconcile_times(controller, 2)
        tenant.connection.recorded.clear()
        await tenant.reconcile_times(controller, 2)
        assert not tenant.connection.requests_for(namespace)
        quota_pods = (await tenant.api.get(QUOTAS, "default-quota", namespace))["spec"]["hard"]
        policies = await _policy_specs(tenant, namespace)
    assert (quota_pods["pods"], policies) == ("7", before)


async def test_a_restart_with_a_refused_quota_removes_an_allowing_policy_of_others(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """An untrusted Environment stays untrusted, whatever its quota is."""
    async with tenant.running():
        namespace = await _create_isolated(tenant, trust="untrusted")
        before = await _policy_specs(tenant, namespace)
    await tenant.apply(tenant.environment(trust="untrusted", quota={"pods": 9999}))
    await kubectl.run("create", "-f", "-", stdin=_policy(namespace, "open", ingress=[{}]))
    async with tenant.running(poll_seconds=3600.0):
        await tenant.wait_deleted(POLICIES, "open", namespace)
        await tenant.condition("PoliciesReady", "QuotaAboveMaximum")
        [note] = await _notes(tenant, "PolicyRemoved")
        policies = await _policy_specs(tenant, namespace)
    assert note.startswith("Removed NetworkPolicy open (added by kubectl")
    assert policies == before


async def test_a_restart_with_a_refused_egress_rule_closes_its_policy_alone(
    tenant: EnvironmentHarness,
) -> None:
    """The administrator lowers the ceiling: what the rule allowed before is no longer allowed."""
    egress = [
        {"name": "db", "cidrs": ["10.1.2.0/24"]},
        {"name": "mail", "cidrs": ["203.0.113.0/24"]},
    ]
    async with tenant.running(network=ClusterNetwork(egress_ceiling=("10.1.0.0/16",))):
        await tenant.apply(tenant.project(network={"egress": egress}))
        await tenant.apply(tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        before = await _policy_specs(tenant, namespace)
    async with tenant.running(poll_seconds=3600.0):
        await tenant.wait_deleted(POLICIES, "allow-egress-db", namespace)
        await tenant.condition("PoliciesReady", "EgressNotAllowed")
        policies = await _policy_specs(tenant, namespace)
    assert before.keys() - policies.keys() == {"allow-egress-db"}
    assert policies.items() <= before.items()


async def _delete_project(tenant: EnvironmentHarness) -> None:
    """Delete the Project; without its finalizer it does not wait for its Environments."""
    await tenant.api.delete(PROJECTS, tenant.name, tenant.namespace)
    bare = {"metadata": {"finalizers": None}}
    # A Project that the operator has not put its finalizer on yet is gone by now.
    with contextlib.suppress(NotFound):
        await tenant.patch(PROJECTS, tenant.name, bare, tenant.namespace)
    await tenant.wait_deleted(PROJECTS, tenant.name, tenant.namespace)


@pytest.mark.scenario("E36")
async def test_an_environment_without_its_project_stays_isolated(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """Policies and the Pod Security level are restored as the Project last described them."""
    async with tenant.running(poll_seconds=3600.0):
        namespace = await _create_isolated(tenant)
        await _delete_project(tenant)
        await tenant.condition("Ready", "ProjectNotFound")
        await _open_and_wait_restored(tenant, kubectl, namespace)
        level = "pod-security.kubernetes.io/enforce"
        await kubectl.run("label", "ns", namespace, f"{level}=privileged", "--overwrite")
        await _wait_restored(
            tenant,
            NAMESPACES,
            namespace,
            "",
            lambda live: bool(live["metadata"]["labels"][level] == "restricted"),
        )
        await _notes(tenant, "DriftCorrected", 2)
        environment = await tenant.condition("PoliciesReady", "PoliciesApplied")
    assert environment["status"]["phase"] == "Ready"


async def test_an_isolation_that_is_not_known_is_not_reported_as_in_force(
    tenant: EnvironmentHarness,
) -> None:
    """After a restart without the Project, PoliciesReady is Unknown until it exists again."""
    async with tenant.running():
        await _create_isolated(tenant)
    await _delete_project(tenant)
    async with tenant.running():
        environment = await tenant.condition("PoliciesReady", "ProjectNotFound")
        await tenant.apply(tenant.project())
        await tenant.condition("PoliciesReady", "PoliciesApplied")
    rows = {row["type"]: row for row in environment["status"]["conditions"]}
    assert rows["PoliciesReady"]["status"] == "Unknown"
    assert f"Project {tenant.namespace}/{tenant.name} not found" in rows["PoliciesReady"]["message"]
    assert (environment["status"]["phase"], rows["Ready"]["status"]) == ("Ready", "True")


@pytest.mark.scenario("E36")
async def test_a_restart_without_the_project_restores_what_needs_no_project(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """Base policies and bindings are restored; quota and egress of the Project stay as they are."""
    async with tenant.running():
        await tenant.apply(tenant.project(network={"egress": _EGRESS}), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        before = await _policy_specs(tenant, namespace)
    await _delete_project(tenant)
    await kubectl.patch("netpol", "default-policy", namespace, _OPEN)
    await kubectl.patch("quota", "default-quota", namespace, {"spec": {"hard": {"pods": "99"}}})
    await kubectl.run("delete", "netpol", "allow-dns", "-n", namespace)
    await kubectl.run("delete", "rolebinding", "windlass-applier", "-n", namespace)
    async with tenant.running(poll_seconds=3600.0) as controller:
        environment = await tenant.condition("PoliciesReady", "ProjectNotFound")
        await tenant.api.get(_BINDINGS, "windlass-applier", namespace)
        policies = await _policy_specs(tenant, namespace)
        hard = (await tenant.api.get(QUOTAS, "default-quota", namespace))["spec"]["hard"]
        assert await _notes(tenant, "DriftCorrected") == [
            "Drift corrected: NetworkPolicy default-policy (changed by kubectl-patch)"
        ]
        await tenant.reconcile_times(controller, 2)
        tenant.connection.recorded.clear()
        await tenant.reconcile_times(controller, 2)
        assert not tenant.connection.requests_for(namespace)
    rows = {row["type"]: row for row in environment["status"]["conditions"]}
    assert (policies, hard["pods"]) == (before, "99")
    assert rows["PoliciesReady"]["status"] == "Unknown"
    assert (
        "default-policy, allow-same-namespace and allow-dns are maintained"
        in (rows["PoliciesReady"]["message"])
    )
    assert (environment["status"]["phase"], rows["Ready"]["status"]) == ("Ready", "True")


async def test_a_restart_without_the_project_removes_an_allowing_policy_of_others(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """The Environment itself says that it is untrusted; what the Project opened stays."""
    async with tenant.running():
        await tenant.apply(tenant.project(network={"egress": _EGRESS}))
        await tenant.apply(tenant.environment(trust="untrusted"))
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        before = await _policy_specs(tenant, namespace)
    await _delete_project(tenant)
    copied = json.loads(_policy(namespace, "copied", ingress=[{}]))
    ours = await tenant.api.get(POLICIES, "default-policy", namespace)
    copied["metadata"] |= {key: ours["metadata"][key] for key in ("labels", "annotations")}
    await kubectl.run("create", "-f", "-", stdin=_policy(namespace, "open", ingress=[{}]))
    await kubectl.run("create", "-f", "-", stdin=json.dumps(copied))
    async with tenant.running(poll_seconds=3600.0):
        await tenant.wait_deleted(POLICIES, "open", namespace)
        await tenant.wait_deleted(POLICIES, "copied", namespace)
        await _notes(tenant, "PolicyRemoved", 2)
        assert await _policy_specs(tenant, namespace) == before
    assert "allow-egress-mail" in before


async def test_a_write_between_replacement_and_apply_is_not_taken_for_ours(
    tenant: EnvironmentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another client adds at that moment is removed like any other drift."""
    # Without the protocol, which the API server adds: so the stored content is not ours.
    monkeypatch.setattr(network_policies, "_port", lambda number, _: {"port": number})
    replace, opened = IsolationWriter._replace, []

    async def replace_and_open(
        writer: IsolationWriter, gvr: GVR, desired: Any, namespace: str, live: Any
    ) -> Any:
        replaced = await replace(writer, gvr, desired, namespace, live)
        if desired["metadata"]["name"] == "allow-dns" and not opened:
            opened.append(await tenant.patch(POLICIES, "allow-dns", _OPEN_INGRESS, namespace))
        return replaced

    monkeypatch.setattr(IsolationWriter, "_replace", replace_and_open)
    async with tenant.running():
        namespace = await _create_isolated(tenant)
        await _wait_restored(
            tenant,
            POLICIES,
            "allow-dns",
            namespace,
            lambda live: "ingress" not in live["spec"],
        )
    assert opened[0]["spec"]["ingress"] == [{}]


@pytest.mark.scenario("E36")
async def test_a_foreign_policy_that_a_finalizer_keeps_is_reported(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """It still allows traffic: PoliciesReady is False with its name, after one DELETE."""
    held = json.loads(_policy("", "open", ingress=[{}]))
    held["metadata"]["finalizers"] = ["example.com/hold"]

    async def message() -> str:
        rows = {row["type"]: row for row in (await tenant.get())["status"]["conditions"]}
        return str(rows["PoliciesReady"]["message"])

    async with tenant.running(poll_seconds=3600.0) as controller:
        namespace = await _create_isolated(tenant, trust="untrusted")
        await kubectl.run("create", "-n", namespace, "-f", "-", stdin=json.dumps(held))
        await tenant.condition("PoliciesReady", "PolicyApplyFailed")
        await tenant.reconcile_times(controller, 2)
        assert await message() == (
            "NetworkPolicy open is terminating and still allows traffic; remove its finalizers "
            f"(example.com/hold): kubectl edit networkpolicy open -n {namespace}"
        )
        requests = tenant.connection.requests_for(f"{namespace}/networkpolicies/open")
        assert [request.method for request in requests] == ["DELETE"]
        await kubectl.patch("netpol", "open", namespace, {"metadata": {"finalizers": None}})
        await tenant.condition("PoliciesReady", "PoliciesApplied")
