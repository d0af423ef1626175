"""Which namespace an Environment gets, decided by a real API server."""

from __future__ import annotations

import pytest

from tests.support.environments.environment_harness import (
    ENVIRONMENTS,
    NAMESPACES,
    PROJECTS,
    EnvironmentHarness,
)
from tests.support.processes.polling import eventually
from windlass.environments.namespace.naming import NamingRules

pytestmark = pytest.mark.cluster


def _plain(tenant: EnvironmentHarness) -> NamingRules:
    return NamingRules(plain_namespaces=frozenset({tenant.namespace}))


@pytest.mark.scenario("E13")
async def test_two_identities_with_one_plain_name_get_two_namespaces(
    tenant: EnvironmentHarness,
) -> None:
    """(a-b, c) and (a, b-c) would both be env-a-b-c; whoever comes second gets a hash."""
    short, long = tenant.project(), tenant.project()
    short["metadata"]["name"] = tenant.name
    long["metadata"]["name"] = f"{tenant.name}-b"
    async with tenant.running(naming=_plain(tenant)):
        await tenant.apply(
            short,
            long,
            tenant.environment("b-c", projectRef={"name": tenant.name}),
            tenant.environment("c", projectRef={"name": f"{tenant.name}-b"}),
        )
        one, two = await tenant.phase("Ready", "b-c"), await tenant.phase("Ready", "c")
    places = {one["status"]["namespace"], two["status"]["namespace"]}
    assert f"env-{tenant.name}-b-c" in places
    assert len(places) == 2
    for found in (one, two):
        place = await tenant.api.get(NAMESPACES, found["status"]["namespace"])
        owner = place["metadata"]["annotations"]["catalyst.dev/environment-uid"]
        assert owner == found["metadata"]["uid"]


@pytest.mark.scenario("E14")
async def test_equal_names_in_two_tenants_get_two_namespaces(
    tenant: EnvironmentHarness, other_namespace: str
) -> None:
    """The tenant is part of who an Environment is."""
    twin, copy = tenant.project(), tenant.environment()
    twin["metadata"]["namespace"] = copy["metadata"]["namespace"] = other_namespace
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment(), twin, copy)
        mine = await tenant.phase("Ready")

        async def theirs() -> str:
            found = await tenant.api.get(ENVIRONMENTS, "one", other_namespace)
            return str((found.get("status") or {}).get("namespace") or "")

        assert await eventually(theirs, "the twin's namespace") != mine["status"]["namespace"]


async def test_other_rules_for_names_move_nobody(tenant: EnvironmentHarness) -> None:
    """Whoever has a namespace keeps it when the administrator changes the prefix."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        before = await tenant.phase("Ready")
    async with tenant.running(naming=NamingRules(prefix="preview-")):
        await tenant.apply(tenant.environment(quota={"pods": 3}))
        after = await tenant.phase("Ready")
    assert after["status"]["namespace"] == before["status"]["namespace"]


@pytest.mark.scenario("E15")
async def test_names_of_the_cluster_are_never_taken(tenant: EnvironmentHarness) -> None:
    """kube-system is refused by name; nothing is asked of it and nothing is made."""
    project = tenant.project()
    project["metadata"]["name"] = "kube"
    naming = NamingRules(prefix="", plain_namespaces=frozenset({tenant.namespace}))
    async with tenant.running(naming=naming):
        await tenant.apply(project, tenant.environment("system", projectRef={"name": "kube"}))
        found = await tenant.phase("Failed", "system")
    rows = {row["type"]: row for row in found["status"]["conditions"]}
    assert rows["NamespaceReady"]["reason"] == "NamespaceReserved"
    assert "kube-system" in rows["NamespaceReady"]["message"]
    assert "namespace" not in found["status"]
    posted = [one for one in tenant.connection.about("/api/v1/namespaces") if one.is_write]
    assert not [one for one in posted if tenant.namespace in str(one.body)]
    await tenant.api.delete(PROJECTS, "kube", tenant.namespace)


@pytest.mark.scenario("E28")
async def test_a_foreign_namespace_with_our_name_is_left_alone(tenant: EnvironmentHarness) -> None:
    """NamespaceNotOwned, also for deletion; not one write goes there."""
    name = f"env-{tenant.name}-one"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    before = await tenant.api.create(NAMESPACES, body, field_manager="somebody")
    async with tenant.running(naming=_plain(tenant)):
        await tenant.apply(tenant.project(), tenant.environment())
        found = await tenant.phase("Failed")
        rows = {row["type"]: row for row in found["status"]["conditions"]}
        assert rows["NamespaceReady"]["reason"] == "NamespaceNotOwned"
        assert name in found["status"]["message"]
        await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
        await tenant.gone(ENVIRONMENTS, "one", tenant.namespace)
    after = await tenant.api.get(NAMESPACES, name)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert not [one for one in tenant.connection.about(name) if one.is_write]
    await tenant.api.delete(NAMESPACES, name)


@pytest.mark.scenario("E28")
async def test_whoever_takes_our_uid_off_a_namespace_has_taken_it_away(
    tenant: EnvironmentHarness,
) -> None:
    """It is not claimed back and not written to."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        place = await tenant.place()
        patch = {"metadata": {"annotations": {"catalyst.dev/environment-uid": None}}}
        await tenant.patch(NAMESPACES, place, patch)
        found = await tenant.condition("NamespaceReady", "NamespaceNotOwned")
        assert found["status"]["phase"] == "Failed"
        seen = await tenant.api.get(NAMESPACES, place)
        await tenant.poke()
        again = await tenant.api.get(NAMESPACES, place)
        assert again["metadata"]["resourceVersion"] == seen["metadata"]["resourceVersion"]
