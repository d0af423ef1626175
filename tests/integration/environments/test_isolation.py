"""Isolation against other writers: what opens it is closed, and whoever keeps on is named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.environments.environment_harness import POLICIES, QUOTAS, EnvironmentHarness
from tests.support.processes.polling import eventually
from windlass.environments.isolation import drift_rules, quota
from windlass.environments.isolation.network_policies import ClusterNetwork
from windlass.kube.errors import NotFound
from windlass.objects.names import GVR
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

_LIMITS = GVR("", "v1", "limitranges")
_BINDINGS = GVR("rbac.authorization.k8s.io", "v1", "rolebindings")
_OPEN = {"spec": {"ingress": [{}], "egress": [{}]}}
_RESTORED_SECONDS = 5.0


class Kubectl:
    """A person with kubectl."""

    def __init__(self, desk: LocalCluster) -> None:
        self._desk = desk

    async def run(self, *words: str, stdin: str = "") -> None:
        process = await asyncio.create_subprocess_exec(
            self._desk.kubectl,
            f"--kubeconfig={self._desk.admin_kubeconfig}",
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate(stdin.encode())
        assert process.returncode == 0, said.decode()

    async def patch(self, kind: str, name: str, place: str, patch: dict[str, Any]) -> None:
        await self.run("patch", kind, name, "-n", place, "--type=merge", "-p", json.dumps(patch))


@pytest.fixture
def kubectl(cluster: LocalCluster) -> Kubectl:
    """A person with every right."""
    return Kubectl(cluster)


async def _isolated(tenant: EnvironmentHarness, **spec: Any) -> str:
    """The namespace of an Environment whose isolation is in force."""
    await tenant.apply(tenant.project(), tenant.environment(**spec))
    await tenant.phase("Ready")
    return await tenant.place()


async def _becomes(
    tenant: EnvironmentHarness, gvr: GVR, name: str, place: str, is_right: Callable[[Any], bool]
) -> Any:
    """The object, once it is as it should be, within the time that drift may last."""

    async def look() -> Any:
        try:
            found = await tenant.api.get(gvr, name, place)
        except NotFound:
            return None
        return found if is_right(found) else None

    return await eventually(look, f"{name} is restored", seconds=_RESTORED_SECONDS)


async def _notes(tenant: EnvironmentHarness, reason: str, number: int = 1) -> list[str]:
    async def look() -> list[str]:
        notes = [event["note"] for event in await tenant.events(reason)]
        return sorted(notes) if len(notes) >= number else []

    return list(await eventually(look, f"{number} Events {reason}"))


@pytest.mark.scenario("E36")
async def test_rules_that_a_hand_adds_to_a_policy_are_removed(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """`kubectl patch` opens default-policy with fields nobody owned; they go, with an Event."""
    async with tenant.running():
        place = await _isolated(tenant)
        before = await tenant.api.get(POLICIES, "default-policy", place)
        await kubectl.patch("netpol", "default-policy", place, _OPEN)
        await _becomes(
            tenant,
            POLICIES,
            "default-policy",
            place,
            lambda found: bool(found["spec"] == before["spec"]),
        )
        assert await _notes(tenant, "DriftCorrected") == [
            "Drift corrected: NetworkPolicy default-policy (changed by kubectl-patch)"
        ]
        await tenant.poke()
        found = await tenant.phase("Ready")
    rows = {row["type"]: row for row in found["status"]["conditions"]}
    assert rows["PoliciesReady"]["reason"] == "PoliciesApplied"


@pytest.mark.scenario("E36")
async def test_everything_that_isolates_is_ours_as_a_whole(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """Selector, quota, limits and binding: each addition goes, labels of others stay."""
    mine = {"metadata": {"labels": {"team.example/cost": "42"}}}
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
        place = await _isolated(tenant)
        before = [await tenant.api.get(gvr, name, place) for gvr, name, _ in edits]
        for gvr, name, edit in edits:
            await kubectl.patch(gvr.resource, name, place, {**edit, **mine})
        for (gvr, name, _), there in zip(edits, before, strict=True):
            kept = await _becomes(
                tenant,
                gvr,
                name,
                place,
                lambda found, there=there: (
                    drift_rules.exclusive_content(found) == drift_rules.exclusive_content(there)
                ),
            )
            assert kept["metadata"]["labels"]["team.example/cost"] == "42"
        await _notes(tenant, "DriftCorrected", len(edits))


async def test_what_was_opened_while_nobody_looked_is_closed(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """A restart finds the edit, restores it and says who made it; a second pass writes nothing."""
    async with tenant.running():
        place = await _isolated(tenant)
    await kubectl.patch("netpol", "default-policy", place, _OPEN)
    before = await tenant.api.get(QUOTAS, "default-quota", place)
    await tenant.api.delete(QUOTAS, "default-quota", place)
    # Scopes cannot be changed; one that counts nothing takes a new object.
    scoped = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "default-quota", "namespace": place},
        "spec": {"hard": {"pods": "1000"}, "scopes": ["BestEffort"]},
    }
    await kubectl.run("create", "-f", "-", stdin=json.dumps(scoped))
    async with tenant.running() as controller:
        await _becomes(
            tenant, POLICIES, "default-policy", place, lambda found: "ingress" not in found["spec"]
        )
        await _becomes(
            tenant,
            QUOTAS,
            "default-quota",
            place,
            lambda found: bool(found["spec"] == before["spec"]),
        )
        assert len(await _notes(tenant, "DriftCorrected")) >= 1
        await tenant.phase("Ready")
        await tenant.passes(controller, 2)
        tenant.connection.made.clear()
        await tenant.passes(controller, 3)
        assert not [one for one in tenant.connection.about(place) if one.is_write]


async def test_forms_that_the_server_completes_are_no_drift(
    tenant: EnvironmentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defaults, empty members and other spellings of an amount are written once, then never."""
    computed = quota.container_limit_range

    def incomplete(*arguments: Any) -> dict[str, dict[str, str]]:
        row = computed(*arguments)
        del row["default"]["memory"], row["defaultRequest"]["memory"]
        return row

    # The API server fills both in from the maximum.
    monkeypatch.setattr(quota, "container_limit_range", incomplete)
    peer = {"podSelector": {"matchLabels": {}}, "namespaceSelector": {}}
    surroundings = ClusterNetwork(dns_peers=(peer,))
    project = tenant.project(resources={"defaultQuota": {"cpu": "2000m"}})
    for _ in range(2):
        async with tenant.running(network=surroundings, poll_seconds=3600.0) as controller:
            await tenant.apply(project, tenant.environment())
            await tenant.phase("Ready")
            await tenant.passes(controller, 2)
            tenant.connection.made.clear()
            await tenant.passes(controller, 3)
            place = await tenant.place()
            assert not [one for one in tenant.connection.about(place) if one.is_write]
    assert [event["note"] for event in await tenant.events("DriftCorrected")] == []


async def test_whoever_keeps_changing_the_isolation_is_named(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """After five restorations: Contested with the manager and the remedy, and still restored."""
    async with tenant.running():
        place = await _isolated(tenant)
        for _ in range(drift_rules.CONTESTED_AFTER):
            await kubectl.patch("netpol", "default-policy", place, _OPEN)
            await _becomes(
                tenant,
                POLICIES,
                "default-policy",
                place,
                lambda found: "ingress" not in found["spec"],
            )
        found = await tenant.condition("PoliciesReady", "Contested")
        await kubectl.patch("netpol", "default-policy", place, _OPEN)
        await _becomes(
            tenant, POLICIES, "default-policy", place, lambda found: "ingress" not in found["spec"]
        )
    rows = {row["type"]: row for row in found["status"]["conditions"]}
    assert rows["Ready"]["status"] == "False"
    assert "NetworkPolicy default-policy" in rows["PoliciesReady"]["message"]
    assert "field manager kubectl-patch" in rows["PoliciesReady"]["message"]
    assert "spec.network of the Project" in rows["PoliciesReady"]["message"]


def _policy(place: str, name: str, **spec: Any) -> str:
    return json.dumps(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": place},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress"], **spec},
        }
    )


async def test_a_policy_that_somebody_adds_is_named(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """Where code is trusted it stays, and PoliciesReady says that it is there."""

    async def message() -> str:
        rows = {row["type"]: row for row in (await tenant.get())["status"]["conditions"]}
        return str(rows["PoliciesReady"]["message"])

    async with tenant.running(poll_seconds=3600.0):
        place = await _isolated(tenant)
        await kubectl.run("create", "-f", "-", stdin=_policy(place, "open", ingress=[{}]))

        async def named() -> bool:
            return "NetworkPolicy not managed by windlass: open (by kubectl" in await message()

        await eventually(named, "the policy is named", seconds=_RESTORED_SECONDS)
        await tenant.phase("Ready")
        await kubectl.run("delete", "netpol", "open", "-n", place)

        async def forgotten() -> bool:
            return "not managed" not in await message()

        await eventually(forgotten, "it is no longer named", seconds=_RESTORED_SECONDS)


async def test_untrusted_code_gets_no_policy_of_others_that_allows(
    tenant: EnvironmentHarness, kubectl: Kubectl
) -> None:
    """What opens anything is removed with a Warning; what only denies stays and is named."""
    async with tenant.running(poll_seconds=3600.0):
        place = await _isolated(tenant, trust="untrusted")
        await kubectl.run("create", "-f", "-", stdin=_policy(place, "deny"))
        await kubectl.run("create", "-f", "-", stdin=_policy(place, "open", ingress=[{}]))
        await tenant.gone(POLICIES, "open", place, seconds=_RESTORED_SECONDS)
        [note] = await _notes(tenant, "PolicyRemoved")
        await tenant.poke()
        found = await tenant.phase("Ready")
        await tenant.api.get(POLICIES, "deny", place)
    rows = {row["type"]: row for row in found["status"]["conditions"]}
    assert note.startswith("Removed NetworkPolicy open (added by kubectl")
    assert "deny (by kubectl" in rows["PoliciesReady"]["message"]
    [event] = await tenant.events("PolicyRemoved")
    assert event["type"] == "Warning"


@pytest.mark.scenario("E34")
async def test_a_quota_that_changes_is_no_alarm(tenant: EnvironmentHarness) -> None:
    """Until the API server counts by the new one, nothing is reported but what was."""
    async with tenant.running(poll_seconds=3600.0):
        place = await _isolated(tenant)
        for pods in (11, 12):
            tenant.connection.made.clear()
            await tenant.apply(tenant.project(resources={"defaultQuota": {"pods": pods}}))
            await _becomes(
                tenant,
                QUOTAS,
                "default-quota",
                place,
                lambda found, pods=pods: (found["status"]["hard"] or {})["pods"] == str(pods),
            )
            await tenant.poke()
            written = [one.body for one in tenant.connection.about("/environments/one/status")]
            assert not [body for body in written if "conditions" in body["status"]], written
        assert not await tenant.events("PolicyApplyFailed")
