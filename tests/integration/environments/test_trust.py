"""Environments that nobody vouches for, whose team is named, or whose operator stands still."""

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

_DOORS = [
    {"name": "db", "cidrs": ["192.0.2.0/25"]},
    {"name": "mail", "cidrs": ["192.0.2.128/25"], "untrusted": True},
]
_UNENFORCED = ClusterNetwork(is_enforced=False)


async def _labels(tenant: EnvironmentHarness, place: str) -> dict[str, str]:
    found = await tenant.api.get(NAMESPACES, place)
    labels: dict[str, str] = found["metadata"]["labels"]
    return labels


async def test_whoever_falls_is_held_as_the_administrator_says(tenant: EnvironmentHarness) -> None:
    """Level, quota, doors, runtime class and nodes change in place, before the pods do."""
    tenant.commit({"deploy/all.yaml": deployment()})
    project = tenant.project(security={"podSecurity": "baseline"}, network={"egress": _DOORS})
    sandbox = UntrustedPolicy(node_selector={"pool": "forks"}, quota={"pods": "3"})
    async with tenant.running(untrusted=sandbox):
        await tenant.apply(project, tenant.environment())
        await tenant.started()
        place = await tenant.place()
        assert (await _labels(tenant, place))["pod-security.kubernetes.io/enforce"] == "baseline"
        await tenant.apply(tenant.environment(trust="untrusted"))
        await tenant.started()
        labels = await _labels(tenant, place)
        hard = (await tenant.api.get(QUOTAS, "default-quota", place))["spec"]["hard"]
        doors = {row["metadata"]["name"] for row in await tenant.api.list(POLICIES, place)}
        web = await tenant.api.get(DEPLOYMENTS, "web", place)
        tenant.commit({"deploy/all.yaml": _choosing(deployment())})
        refused = await tenant.condition("DeploymentReady", "FieldNotAllowed")
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert (hard["requests.cpu"], hard["limits.memory"], hard["pods"]) == ("1", "4Gi", "3")
    assert "allow-egress-mail" in doors
    assert "allow-egress-db" not in doors
    assert web["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "forks"}
    assert "spec.template.spec.tolerations" in refused["status"]["message"]


def _choosing(manifest: str) -> str:
    toleration = '"spec":{"tolerations":[{"operator":"Exists"}],"containers"'
    return manifest.replace('"spec":{"containers"', toleration)


async def test_policies_that_nobody_enforces_hold_nobody(tenant: EnvironmentHarness) -> None:
    """The untrusted are refused; the others are warned, once."""
    async with tenant.running(network=_UNENFORCED) as controller:
        await tenant.apply(
            tenant.project(), tenant.environment(), tenant.environment("two", trust="untrusted")
        )
        refused = await tenant.condition("PoliciesReady", "EnforcementAbsent", "two")
        found = await tenant.phase("Ready")
        await tenant.passes(controller, 2)
        rows = {row["type"]: row for row in found["status"]["conditions"]}

        async def warned() -> list[Any]:
            told = await tenant.events("EnforcementAbsent")
            return [event for event in told if event["regarding"]["name"] == "one"]

        [event] = await eventually(warned, "a warning")
    assert refused["status"]["phase"] == "Failed"
    assert "environments-network-enforcement" in refused["status"]["message"]
    assert "network policies are not enforced in this cluster" in rows["PoliciesReady"]["message"]
    assert event["type"] == "Warning"


async def test_the_team_is_the_one_the_administrator_names(tenant: EnvironmentHarness) -> None:
    """Its label follows at once, on everything, without a new revision or a correction."""

    async def named(team: str | None) -> Any:
        patch = {"metadata": {"labels": {"catalyst.dev/team": team}}}
        await tenant.patch(NAMESPACES, tenant.namespace, patch)

    async def has(place: str, team: str) -> bool:
        inside = await tenant.api.list(CONFIG_MAPS, place)
        ours = [row for row in inside if row["metadata"]["name"] != "kube-root-ca.crt"]
        quota = await tenant.api.get(QUOTAS, "default-quota", place)
        objects = (await tenant.api.get(NAMESPACES, place), quota, *ours)
        return {row["metadata"]["labels"]["catalyst.dev/team"] for row in objects} == {team}

    async with tenant.running(poll_seconds=3600.0):
        await named("payments")
        await tenant.apply(tenant.project(), tenant.environment())
        before = await tenant.phase("Ready")
        place = await tenant.place()
        await eventually(lambda: has(place, "payments"), "the named team")
        await named("billing")
        await eventually(lambda: has(place, "billing"), "another team")
        await named(None)
        await eventually(lambda: has(place, tenant.namespace), "no team")
        after = await tenant.phase("Ready")
        assert not await tenant.events("DriftCorrected")
    assert after["status"]["serving"] == before["status"]["serving"]


@pytest.mark.scenario("E31", "E32")
async def test_a_suspended_operator_looks_only(tenant: EnvironmentHarness) -> None:
    """No writes but status, no sweep, requests acknowledged; deleting still works."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment(), tenant.environment("orphan"))
        await tenant.phase("Ready")
        await tenant.phase("Ready", "orphan")
        place, orphan = await tenant.place(), await tenant.place("orphan")
    bare = {"metadata": {"finalizers": None}}
    await tenant.patch(ENVIRONMENTS, "orphan", bare, tenant.namespace)
    await tenant.api.delete(ENVIRONMENTS, "orphan", tenant.namespace)
    begun = len(tenant.connection.about(""))
    async with tenant.running(suspended=True, cleanup_seconds=0.05):
        await tenant.apply(tenant.environment(quota={"pods": 7}), tenant.environment("late"))
        tenant.commit({"deploy/all.yaml": CONFIG_MAP.replace("blue", "red")})
        await tenant.poke()
        found = await tenant.condition("Ready", "Suspended")
        late = await tenant.phase("Pending", "late")
        made = tenant.connection.about("")[begun:]
        ours = [one for one in made if tenant.namespace in one.path or place in one.path]
        writes = {one.path.rpartition("/")[2] for one in ours if one.is_write}
        await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
        await tenant.phase("Deleting")
        left = await tenant.api.get(NAMESPACES, orphan)
    assert writes <= {"status", "events"}
    assert found["status"]["phase"] == "Ready"
    assert "environments-suspend" in found["status"]["message"]
    assert not late["metadata"].get("finalizers")
    assert not left["metadata"].get("deletionTimestamp")
