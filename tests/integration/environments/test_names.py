"""Names of namespaces of Environments, on a real API server."""

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
    """(a-b, c) and (a, b-c) would both be env-a-b-c; the second one gets a hash."""
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
        first, second = await tenant.phase("Ready", "b-c"), await tenant.phase("Ready", "c")
    namespaces = {first["status"]["namespace"], second["status"]["namespace"]}
    assert f"env-{tenant.name}-b-c" in namespaces
    assert len(namespaces) == 2
    for environment in (first, second):
        namespace = await tenant.api.get(NAMESPACES, environment["status"]["namespace"])
        owner = namespace["metadata"]["annotations"]["catalyst.dev/environment-uid"]
        assert owner == environment["metadata"]["uid"]


@pytest.mark.scenario("E14")
async def test_equal_names_in_two_tenants_get_two_namespaces(
    tenant: EnvironmentHarness, other_namespace: str
) -> None:
    """The namespace is part of the identity of an Environment."""
    other_project, other = tenant.project(), tenant.environment()
    other_project["metadata"]["namespace"] = other["metadata"]["namespace"] = other_namespace
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment(), other_project, other)
        environment = await tenant.phase("Ready")

        async def other_environment_namespace() -> str:
            live = await tenant.api.get(ENVIRONMENTS, "one", other_namespace)
            return str((live.get("status") or {}).get("namespace") or "")

        other_name = await eventually(other_environment_namespace, "the other namespace")
        assert other_name != environment["status"]["namespace"]


async def test_new_naming_rules_keep_existing_namespaces(tenant: EnvironmentHarness) -> None:
    """An Environment keeps its namespace when the administrator changes the prefix."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        before = await tenant.phase("Ready")
    async with tenant.running(naming=NamingRules(prefix="preview-")):
        await tenant.apply(tenant.environment(quota={"pods": 3}))
        after = await tenant.phase("Ready")
    assert after["status"]["namespace"] == before["status"]["namespace"]


@pytest.mark.scenario("E15")
async def test_reserved_namespaces_are_never_used(tenant: EnvironmentHarness) -> None:
    """kube-system is refused by name; it is neither read nor written."""
    project = tenant.project()
    project["metadata"]["name"] = "kube"
    naming = NamingRules(prefix="", plain_namespaces=frozenset({tenant.namespace}))
    async with tenant.running(naming=naming):
        await tenant.apply(project, tenant.environment("system", projectRef={"name": "kube"}))
        environment = await tenant.phase("Failed", "system")
    rows = {row["type"]: row for row in environment["status"]["conditions"]}
    assert rows["NamespaceReady"]["reason"] == "NamespaceReserved"
    assert "kube-system" in rows["NamespaceReady"]["message"]
    assert "namespace" not in environment["status"]
    posted = [
        request
        for request in tenant.connection.requests_for("/api/v1/namespaces")
        if request.is_write
    ]
    assert not [request for request in posted if tenant.namespace in str(request.body)]
    await tenant.api.delete(PROJECTS, "kube", tenant.namespace)


@pytest.mark.scenario("E28")
async def test_a_namespace_that_is_not_owned_is_left_alone(tenant: EnvironmentHarness) -> None:
    """NamespaceNotOwned, also for deletion; nothing is written to it."""
    name = f"env-{tenant.name}-one"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    before = await tenant.api.create(NAMESPACES, body, field_manager="another-client")
    async with tenant.running(naming=_plain(tenant)):
        await tenant.apply(tenant.project(), tenant.environment())
        environment = await tenant.phase("Failed")
        rows = {row["type"]: row for row in environment["status"]["conditions"]}
        assert rows["NamespaceReady"]["reason"] == "NamespaceNotOwned"
        assert name in environment["status"]["message"]
        await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
        await tenant.wait_deleted(ENVIRONMENTS, "one", tenant.namespace)
    after = await tenant.api.get(NAMESPACES, name)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert not [request for request in tenant.connection.requests_for(name) if request.is_write]
    await tenant.api.delete(NAMESPACES, name)


@pytest.mark.scenario("E28")
async def test_a_namespace_without_the_uid_annotation_is_not_owned_any_more(
    tenant: EnvironmentHarness,
) -> None:
    """It is not adopted again and not written to; its isolation is not known."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        patch = {"metadata": {"annotations": {"catalyst.dev/environment-uid": None}}}
        await tenant.patch(NAMESPACES, namespace, patch)
        environment = await tenant.condition("NamespaceReady", "NamespaceNotOwned")
        assert environment["status"]["phase"] == "Failed"
        rows = {row["type"]: row for row in environment["status"]["conditions"]}
        policies = rows["PoliciesReady"]
        assert (policies["status"], policies["reason"]) == ("Unknown", "NamespaceNotOwned")
        before = await tenant.api.get(NAMESPACES, namespace)
        await tenant.request_reconcile()
        after = await tenant.api.get(NAMESPACES, namespace)
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
