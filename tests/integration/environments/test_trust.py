"""Untrusted Environments, team labels, and a suspended operator."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.environments.environment_harness import (
    CONFIG_MAP,
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENVIRONMENTS,
    NAMESPACES,
    POLICIES,
    QUOTAS,
    EnvironmentHarness,
    deployment,
)
from tests.support.processes.polling import eventually
from windlass.environments.isolation.network_policies import ClusterNetwork
from windlass.environments.isolation.trust import UntrustedPolicy

pytestmark = pytest.mark.cluster

_EGRESS_RULES = [
    {"name": "db", "cidrs": ["192.0.2.0/25"]},
    {"name": "mail", "cidrs": ["192.0.2.128/25"], "untrusted": True},
]
_UNENFORCED = ClusterNetwork(is_enforced=False)


async def _labels(tenant: EnvironmentHarness, namespace: str) -> dict[str, str]:
    live = await tenant.api.get(NAMESPACES, namespace)
    labels: dict[str, str] = live["metadata"]["labels"]
    return labels


async def test_an_environment_that_becomes_untrusted_gets_the_untrusted_policy(
    tenant: EnvironmentHarness,
) -> None:
    """Pod Security level, quota, egress and node selector change in place."""
    tenant.commit({"deploy/all.yaml": deployment()})
    project = tenant.project(
        security={"podSecurity": "baseline"}, network={"egress": _EGRESS_RULES}
    )
    sandbox = UntrustedPolicy(node_selector={"pool": "forks"}, quota={"pods": "3"})
    async with tenant.running(untrusted=sandbox):
        await tenant.apply(project, tenant.environment())
        await tenant.wait_running()
        namespace = await tenant.environment_namespace()
        assert (await _labels(tenant, namespace))[
            "pod-security.kubernetes.io/enforce"
        ] == "baseline"
        await tenant.apply(tenant.environment(trust="untrusted"))
        await tenant.wait_running()
        labels = await _labels(tenant, namespace)
        hard = (await tenant.api.get(QUOTAS, "default-quota", namespace))["spec"]["hard"]
        policies = {row["metadata"]["name"] for row in await tenant.api.list(POLICIES, namespace)}
        web = await tenant.api.get(DEPLOYMENTS, "web", namespace)
        tenant.commit({"deploy/all.yaml": _with_toleration(deployment())})
        refused = await tenant.condition("DeploymentReady", "FieldNotAllowed")
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert (hard["requests.cpu"], hard["limits.memory"], hard["pods"]) == ("1", "4Gi", "3")
    assert "allow-egress-mail" in policies
    assert "allow-egress-db" not in policies
    assert web["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "forks"}
    assert "spec.template.spec.tolerations" in refused["status"]["message"]


def _with_toleration(manifest: str) -> str:
    toleration = '"spec":{"tolerations":[{"operator":"Exists"}],"containers"'
    return manifest.replace('"spec":{"containers"', toleration)


async def test_without_enforcement_untrusted_environments_are_refused(
    tenant: EnvironmentHarness,
) -> None:
    """Trusted ones run, with one Warning."""
    async with tenant.running(network=_UNENFORCED) as controller:
        await tenant.apply(
            tenant.project(), tenant.environment(), tenant.environment("two", trust="untrusted")
        )
        refused = await tenant.condition("PoliciesReady", "EnforcementAbsent", "two")
        environment = await tenant.phase("Ready")
        await tenant.reconcile_times(controller, 2)
        rows = {row["type"]: row for row in environment["status"]["conditions"]}

        async def warned() -> list[Any]:
            events = await tenant.events("EnforcementAbsent")
            return [event for event in events if event["regarding"]["name"] == "one"]

        [event] = await eventually(warned, "a warning")
    assert refused["status"]["phase"] == "Failed"
    assert "environments-network-enforcement" in refused["status"]["message"]
    assert "network policies are not enforced in this cluster" in rows["PoliciesReady"]["message"]
    assert event["type"] == "Warning"


async def test_the_team_label_follows_the_namespace_of_the_tenant(
    tenant: EnvironmentHarness,
) -> None:
    """At once, on all objects, without a new revision or a correction."""

    async def set_team(team: str | None) -> Any:
        patch = {"metadata": {"labels": {"catalyst.dev/team": team}}}
        await tenant.patch(NAMESPACES, tenant.namespace, patch)

    async def has(namespace: str, team: str) -> bool:
        inside = await tenant.api.list(CONFIG_MAPS, namespace)
        ours = [row for row in inside if row["metadata"]["name"] != "kube-root-ca.crt"]
        quota = await tenant.api.get(QUOTAS, "default-quota", namespace)
        objects = (await tenant.api.get(NAMESPACES, namespace), quota, *ours)
        return {row["metadata"]["labels"]["catalyst.dev/team"] for row in objects} == {team}

    async with tenant.running(poll_seconds=3600.0):
        await set_team("payments")
        await tenant.apply(tenant.project(), tenant.environment())
        before = await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        await eventually(lambda: has(namespace, "payments"), "the named team")
        await set_team("billing")
        await eventually(lambda: has(namespace, "billing"), "another team")
        await set_team(None)
        await eventually(lambda: has(namespace, tenant.namespace), "no team")
        after = await tenant.phase("Ready")
        assert not await tenant.events("DriftCorrected")
    assert after["status"]["serving"] == before["status"]["serving"]


@pytest.mark.scenario("E31", "E32")
async def test_a_suspended_operator_writes_only_status(tenant: EnvironmentHarness) -> None:
    """No orphan cleanup; requests are acknowledged; deletion still works."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment(), tenant.environment("orphan"))
        await tenant.phase("Ready")
        await tenant.phase("Ready", "orphan")
        namespace, orphan = (
            await tenant.environment_namespace(),
            await tenant.environment_namespace("orphan"),
        )
    bare = {"metadata": {"finalizers": None}}
    await tenant.patch(ENVIRONMENTS, "orphan", bare, tenant.namespace)
    await tenant.api.delete(ENVIRONMENTS, "orphan", tenant.namespace)
    start = len(tenant.connection.requests_for(""))
    async with tenant.running(suspended=True, cleanup_seconds=0.05):
        await tenant.apply(tenant.environment(quota={"pods": 7}), tenant.environment("late"))
        tenant.commit({"deploy/all.yaml": CONFIG_MAP.replace("blue", "red")})
        await tenant.request_reconcile()
        environment = await tenant.condition("Ready", "Suspended")
        late = await tenant.phase("Pending", "late")
        requests = tenant.connection.requests_for("")[start:]
        ours = [
            request
            for request in requests
            if tenant.namespace in request.path or namespace in request.path
        ]
        writes = {request.path.rpartition("/")[2] for request in ours if request.is_write}
        await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
        await tenant.wait_deleted(ENVIRONMENTS, "one", tenant.namespace)
        left = await tenant.api.get(NAMESPACES, orphan)
    assert writes <= {"status", "events"}
    assert environment["status"]["phase"] == "Ready"
    assert "environments-suspend" in environment["status"]["message"]
    assert not late["metadata"].get("finalizers")
    assert not left["metadata"].get("deletionTimestamp")
