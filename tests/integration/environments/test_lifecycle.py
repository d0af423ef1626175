"""Environments on a real API server, from their first sight to a converged state."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.environments.environment_harness import (
    CONFIG_MAP,
    CONFIG_MAPS,
    ENVIRONMENTS,
    NAMESPACES,
    POLICIES,
    PROJECTS,
    QUOTAS,
    EnvironmentHarness,
)
from tests.support.processes.polling import eventually
from windlass.api.install import crd
from windlass.api.kinds import environment
from windlass.kube.errors import Invalid
from windlass.objects.names import GVR

pytestmark = pytest.mark.cluster

_DEFINITIONS = GVR("apiextensions.k8s.io", "v1", "customresourcedefinitions")


@pytest.mark.scenario("E18")
async def test_a_pair_becomes_a_running_copy(tenant: EnvironmentHarness) -> None:
    """Finalizer, Initializing, a namespace with our marks, and the objects of the commit."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        found = await tenant.phase("Ready")
    assert found["metadata"]["finalizers"] == ["catalyst.dev/finalizer"]
    place = await tenant.api.get(NAMESPACES, found["status"]["namespace"])
    labels = place["metadata"]["labels"]
    for level in ("enforce", "warn", "audit"):
        assert labels[f"pod-security.kubernetes.io/{level}"] == "restricted"
        assert labels[f"pod-security.kubernetes.io/{level}-version"] == "latest"
    assert labels["catalyst.dev/environment-uid"] == found["metadata"]["uid"]
    assert labels["catalyst.dev/team"] == tenant.namespace
    assert place["metadata"]["annotations"] == {
        "catalyst.dev/environment-uid": found["metadata"]["uid"],
        "catalyst.dev/environment-namespace": tenant.namespace,
        "catalyst.dev/environment-name": "one",
    }
    applied = await tenant.api.get(CONFIG_MAPS, "settings", found["status"]["namespace"])
    assert applied["data"] == {"colour": "blue"}
    _initializing_comes_first(tenant, place["metadata"]["name"])
    _few_writes(tenant, place["metadata"]["name"])


def _few_writes(tenant: EnvironmentHarness, place: str) -> None:
    """What is made on the way is bounded: 24 fixed writes, one per object, ten reports."""
    writes = [one for one in tenant.connection.about(place, tenant.namespace) if one.is_write]
    reports = [one for one in writes if one.path.endswith("/environments/one/status")]
    inside = [one for one in writes if f"/namespaces/{place}/" in one.path]
    assert len(reports) <= 10
    assert len(inside) <= 24 + 1


def _initializing_comes_first(tenant: EnvironmentHarness, place: str) -> None:
    """By what the controller asked for, in this order: finalizer, phase, namespace."""
    writes = [one for one in tenant.connection.about("") if one.is_write]
    finalizer = next(
        i
        for i, one in enumerate(writes)
        if "finalizers" in ((one.body or {}).get("metadata") or {})
    )
    phases = [
        (i, (one.body.get("status") or {}).get("phase"))
        for i, one in enumerate(writes)
        if one.path.endswith("/environments/one/status") and tenant.namespace in one.path
    ]
    made = next(
        i
        for i, one in enumerate(writes)
        if one.method == "POST" and (one.body.get("metadata") or {}).get("name") == place
    )
    assert phases[0][1] == "Initializing"
    assert finalizer < phases[0][0] < made


@pytest.mark.scenario("E20")
async def test_whoever_has_no_project_yet_waits_for_it(tenant: EnvironmentHarness) -> None:
    """Pending with a reason, nothing made; the Project's appearance is enough."""
    async with tenant.running():
        await tenant.apply(tenant.environment())
        waiting = await tenant.phase("Pending")
        rows = {row["type"]: row for row in waiting["status"]["conditions"]}
        assert rows["Ready"]["reason"] == "ProjectNotFound"
        assert "namespace" not in waiting["status"]
        assert not waiting["metadata"].get("finalizers")
        await tenant.apply(tenant.project())
        found = await tenant.phase("Ready")
    assert found["metadata"]["finalizers"] == ["catalyst.dev/finalizer"]
    assert found["metadata"]["generation"] == waiting["metadata"]["generation"]


@pytest.mark.scenario("E20")
async def test_a_project_that_is_not_shared_looks_like_none(
    tenant: EnvironmentHarness, other_namespace: str
) -> None:
    """The same words as for a Project that does not exist; a grant lets it proceed."""
    foreign = tenant.environment(projectRef={"name": tenant.name, "namespace": tenant.namespace})
    foreign["metadata"]["namespace"] = other_namespace
    absent = tenant.environment(
        "absent", projectRef={"name": "never", "namespace": tenant.namespace}
    )
    absent["metadata"]["namespace"] = other_namespace

    async def message(name: str) -> str:
        found = await tenant.api.get(ENVIRONMENTS, name, other_namespace)
        return str((found.get("status") or {}).get("message") or "")

    async with tenant.running():
        await tenant.apply(tenant.project(), foreign, absent)
        refused = await eventually(lambda: message("one"), "an answer")
        unknown = await eventually(lambda: message("absent"), "an answer")
        assert refused.replace(tenant.name, "never") == unknown
        await tenant.apply(tenant.project(environmentNamespaces=[other_namespace]))

        async def ready() -> bool:
            found = await tenant.api.get(ENVIRONMENTS, "one", other_namespace)
            return bool(found["status"]["phase"] == "Ready")

        await eventually(ready, "the shared Project is used")


@pytest.mark.scenario("E4")
async def test_the_older_shape_gives_the_same_objects(tenant: EnvironmentHarness) -> None:
    """Equal fences and objects, and what is stored stays as it was written."""
    older = tenant.project()
    older["metadata"]["name"] = f"{tenant.name}-older"
    older["spec"] = {
        "source": {"repositoryUrl": tenant.url, "branch": "main"},
        "deployment": {"type": "manifest", "path": "deploy"},
    }
    copy = tenant.environment("older", projectRef={"name": f"{tenant.name}-older"})
    del copy["spec"]["sources"]
    copy["spec"]["source"] = {"branch": "main"}
    await tenant.apply(tenant.project(), tenant.environment(), older, copy)
    written = await _specs(tenant, f"{tenant.name}-older", "older")
    async with tenant.running():
        one, two = await tenant.phase("Ready"), await tenant.phase("Ready", "older")
        first, second = await tenant.place("one"), await tenant.place("older")
        for gvr, part in ((CONFIG_MAPS, "data"), (QUOTAS, "spec"), (POLICIES, "spec")):
            assert await _shown(tenant, gvr, first, part) == await _shown(tenant, gvr, second, part)
    assert one["status"]["serving"]["revision"] == two["status"]["serving"]["revision"]
    assert await _specs(tenant, f"{tenant.name}-older", "older") == written
    assert all("source" in spec and "sources" not in spec for spec in written)


async def _specs(tenant: EnvironmentHarness, project: str, name: str) -> list[dict[str, Any]]:
    stored = await tenant.api.get(PROJECTS, project, tenant.namespace)
    return [stored["spec"], (await tenant.get(name))["spec"]]


async def _shown(tenant: EnvironmentHarness, gvr: GVR, place: str, part: str) -> dict[str, Any]:
    found = await tenant.api.list(gvr, place)
    kept = (one for one in found if one["metadata"]["name"] != "windlass-inventory")
    return {one["metadata"]["name"]: one.get(part) for one in kept}


@pytest.mark.scenario("E9")
async def test_a_broken_object_harms_nobody_else_and_can_be_deleted(
    tenant: EnvironmentHarness,
) -> None:
    """Stored before a rule came: Failed ConfigInvalid, its neighbour proceeds."""
    document = crd.crd_manifest(environment.KIND)
    loosened = crd.crd_manifest(environment.KIND)
    kind = loosened["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del kind["properties"]["type"]["pattern"]
    broken = tenant.environment("broken", type="NOT A TYPE")

    async def is_stored() -> bool:
        try:
            await tenant.apply(broken)
        except Invalid:
            return False
        return True

    try:
        await tenant.api.apply(_DEFINITIONS, loosened, field_manager="windlass-dev")
        await eventually(is_stored, "the broken object is stored")
    finally:
        await tenant.api.apply(_DEFINITIONS, document, field_manager="windlass-dev")
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        failed = await tenant.phase("Failed", "broken")
        rows = {row["type"]: row for row in failed["status"]["conditions"]}
        assert rows["Ready"]["reason"] == "ConfigInvalid"
        assert "type" in rows["Ready"]["message"]
        assert rows["Stalled"]["status"] == "True"
        await tenant.api.delete(ENVIRONMENTS, "broken", tenant.namespace)
        await tenant.gone(ENVIRONMENTS, "broken", tenant.namespace)


@pytest.mark.scenario("E31", "E32")
async def test_suspended_means_looking_only(tenant: EnvironmentHarness) -> None:
    """No writes but status, requests acknowledged; cleared, everything is caught up with."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        place = await tenant.place()
        await tenant.apply(tenant.environment(suspend=True))
        found = await tenant.condition("Ready", "Suspended")
        begun = len(tenant.connection.about(""))
        await tenant.apply(tenant.environment(suspend=True, quota={"pods": 7}))
        await tenant.patch(QUOTAS, "default-quota", {"spec": {"hard": {"pods": "9"}}}, place)
        tenant.commit({"deploy/all.yaml": CONFIG_MAP.replace("blue", "red")})
        await tenant.poke()
        found = await tenant.condition("Ready", "Suspended")
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        assert "spec.suspend" in found["status"]["message"]
        assert found["status"]["phase"] == "Ready"
        made = tenant.connection.about("")[begun:]
        ours = [one for one in made if tenant.namespace in one.path or place in one.path]
        writes = {one.path.rpartition("/")[2] for one in ours if one.is_write}
        assert writes <= {"status", "events"}
        await tenant.apply(tenant.environment(quota={"pods": 7}))
        await tenant.phase("Ready")
        quota = await tenant.api.get(QUOTAS, "default-quota", place)
        assert quota["spec"]["hard"]["pods"] == "7"

        async def red() -> bool:
            applied = await tenant.api.get(CONFIG_MAPS, "settings", place)
            return bool(applied["data"] == {"colour": "red"})

        await eventually(red, "the commit is caught up with")


@pytest.mark.scenario("E31")
async def test_a_suspended_project_holds_all_of_its_environments(
    tenant: EnvironmentHarness,
) -> None:
    """Whoever has not begun does not begin; the message says who must clear what."""
    async with tenant.running():
        await tenant.apply(tenant.project(suspend=True), tenant.environment())
        found = await tenant.phase("Pending")
        rows = {row["type"]: row for row in found["status"]["conditions"]}
        assert rows["Ready"]["reason"] == "ProjectSuspended"
        assert f"Project {tenant.namespace}/{tenant.name}" in found["status"]["message"]
        assert "namespace" not in found["status"]
        await tenant.apply(tenant.project())
        await tenant.phase("Ready")


@pytest.mark.scenario("E32")
async def test_a_request_is_acknowledged(tenant: EnvironmentHarness) -> None:
    """Whoever asks for a look sees that it was taken, and that nothing happened."""
    async with tenant.running(poll_seconds=3600.0):
        await tenant.apply(tenant.project(), tenant.environment())
        before = await tenant.phase("Ready")
        await tenant.poke()
        after = await tenant.get()
        tenant.commit({"deploy/all.yaml": CONFIG_MAP.replace("blue", "red")})
        await tenant.poke()
        newer = await tenant.get()
    assert after["status"]["serving"] == before["status"]["serving"]
    assert newer["status"]["revision"] == before["status"]["revision"] + 1


async def test_two_projects_at_once_of_which_one_is_poisoned(tenant: EnvironmentHarness) -> None:
    """A repository full of nonsense fails alone; one that never answers holds up nobody."""
    held: list[asyncio.StreamWriter] = []

    async def never(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    server = await asyncio.start_server(never, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    silent = tenant.project()
    silent["metadata"]["name"] = f"{tenant.name}-silent"
    silent["spec"]["sources"][0]["repositoryUrl"] = f"http://127.0.0.1:{port}/x"
    poisoned = tenant.project()
    poisoned["metadata"]["name"] = f"{tenant.name}-poisoned"
    poisoned["spec"]["templates"]["default"]["path"] = "poison"
    tenant.commit({"poison/a.yaml": "a: &a [*a, *a]\nkind: [{}: 1]\n"})
    async with tenant.running():
        await tenant.apply(
            silent,
            poisoned,
            *(
                tenant.environment(f"silent-{n}", projectRef={"name": f"{tenant.name}-silent"})
                for n in range(3)
            ),
            tenant.environment("bad", projectRef={"name": f"{tenant.name}-poisoned"}),
            tenant.project(),
            tenant.environment(),
        )
        await tenant.phase("Ready")
        failed = await tenant.phase("Failed", "bad")
        rows = {row["type"]: row for row in failed["status"]["conditions"]}
        assert rows["DeploymentReady"]["reason"] == "RenderFailed"
        assert "poison/a.yaml" in failed["status"]["message"]
    for writer in held:
        writer.close()
    server.close()


def _verdicts(found: Any) -> tuple[str, str, str]:
    """What `kubectl get` shows as PHASE and READY, and the reason of the latter."""
    status = found["status"]
    [ready] = [row for row in status["conditions"] if row["type"] == "Ready"]
    return status["phase"], ready["status"], ready["reason"]


async def test_what_serves_without_its_project_is_still_ready(tenant: EnvironmentHarness) -> None:
    """PHASE and READY stay as they were, with a reason that says what is missing."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
    # Somebody takes the finalizer off: nothing waits for the Environment any more.
    await tenant.patch(PROJECTS, tenant.name, {"metadata": {"finalizers": None}}, tenant.namespace)
    await tenant.api.delete(PROJECTS, tenant.name, tenant.namespace)
    async with tenant.running():
        found = await tenant.condition("Ready", "ProjectNotFound")
        assert _verdicts(found) == ("Ready", "True", "ProjectNotFound")
        await tenant.apply(tenant.project())
        found = await tenant.condition("Ready", "Succeeded")
        assert _verdicts(found)[:2] == ("Ready", "True")


async def test_a_fault_of_ours_is_shown_in_phase_and_ready(
    tenant: EnvironmentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass that ends in an error says in both that nobody knows; both heal with it."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")

        async def broken(*_: object) -> Any:
            raise RuntimeError("a fault of ours")

        with monkeypatch.context() as patched:
            patched.setattr(
                "windlass.environments.namespace.namespace_manager.NamespaceManager.ensure", broken
            )
            stamp = {"metadata": {"annotations": {"windlass.dev/requestedAt": "now"}}}
            await tenant.patch(ENVIRONMENTS, "one", stamp, tenant.namespace)
            found = await tenant.condition("Ready", "InternalError")
        assert _verdicts(found)[:2] == ("Deploying", "False")
        assert "error id" in found["status"]["message"]
        found = await tenant.phase("Ready")
        assert _verdicts(found)[:2] == ("Ready", "True")
