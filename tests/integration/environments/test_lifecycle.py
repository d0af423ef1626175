"""Environments on a real API server, from creation to a converged state."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.environments.environment_harness import (
    CONFIG_MAP,
    CONFIG_MAPS,
    ENVIRONMENTS,
    MANAGER,
    NAMESPACES,
    POLICIES,
    PROJECTS,
    QUOTAS,
    EnvironmentHarness,
)
from tests.support.processes.polling import eventually
from windlass.api.install import crd
from windlass.api.kinds import environment
from windlass.environments.isolation import isolation_writer
from windlass.kube.errors import Invalid
from windlass.objects.names import GVR

pytestmark = pytest.mark.cluster

_DEFINITIONS = GVR("apiextensions.k8s.io", "v1", "customresourcedefinitions")


@pytest.mark.scenario("E18")
async def test_a_project_and_an_environment_become_a_running_copy(
    tenant: EnvironmentHarness,
) -> None:
    """Finalizer, Initializing, a namespace with ownership labels, the objects of the commit."""
    # Before the start: of two watches the one of the Environment may be the faster one.
    await tenant.apply(tenant.project(), tenant.environment())
    async with tenant.running():
        environment = await tenant.phase("Ready")
    assert environment["metadata"]["finalizers"] == ["catalyst.dev/finalizer"]
    namespace = await tenant.api.get(NAMESPACES, environment["status"]["namespace"])
    labels = namespace["metadata"]["labels"]
    for level in ("enforce", "warn", "audit"):
        assert labels[f"pod-security.kubernetes.io/{level}"] == "restricted"
        assert labels[f"pod-security.kubernetes.io/{level}-version"] == "latest"
    assert labels["catalyst.dev/environment-uid"] == environment["metadata"]["uid"]
    assert labels["catalyst.dev/team"] == tenant.namespace
    assert namespace["metadata"]["annotations"] == {
        "catalyst.dev/environment-uid": environment["metadata"]["uid"],
        "catalyst.dev/environment-namespace": tenant.namespace,
        "catalyst.dev/environment-name": "one",
    }
    applied = await tenant.api.get(CONFIG_MAPS, "settings", environment["status"]["namespace"])
    assert applied["data"] == {"color": "blue"}
    _assert_initializing_comes_first(tenant, namespace["metadata"]["name"])
    _assert_few_writes(tenant, namespace["metadata"]["name"])


def _assert_few_writes(tenant: EnvironmentHarness, namespace: str) -> None:
    """The number of writes is bounded: 24 fixed ones, one per object, ten of status."""
    writes = [
        request
        for request in tenant.connection.requests_for(namespace, tenant.namespace)
        if request.is_write
    ]
    reports = [request for request in writes if request.path.endswith("/environments/one/status")]
    inside = [request for request in writes if f"/namespaces/{namespace}/" in request.path]
    assert len(reports) <= 10
    assert len(inside) <= 24 + 1


def _assert_initializing_comes_first(tenant: EnvironmentHarness, namespace: str) -> None:
    """The requests of the controller are in this order: finalizer, phase, namespace."""
    writes = [request for request in tenant.connection.requests_for("") if request.is_write]
    finalizer = next(
        i
        for i, request in enumerate(writes)
        if "finalizers" in ((request.body or {}).get("metadata") or {})
    )
    phases = [
        (i, (request.body.get("status") or {}).get("phase"))
        for i, request in enumerate(writes)
        if request.path.endswith("/environments/one/status") and tenant.namespace in request.path
    ]
    created = next(
        i
        for i, request in enumerate(writes)
        if request.method == "POST"
        and (request.body.get("metadata") or {}).get("name") == namespace
    )
    assert phases[0][1] == "Initializing"
    assert finalizer < phases[0][0] < created


@pytest.mark.scenario("E20", "E30")
async def test_an_environment_waits_for_its_project(tenant: EnvironmentHarness) -> None:
    """Pending with a reason, nothing created; it proceeds once the Project exists."""
    async with tenant.running():
        await tenant.apply(tenant.environment())
        waiting = await tenant.phase("Pending")
        rows = {row["type"]: row for row in waiting["status"]["conditions"]}
        assert rows["Ready"]["reason"] == "ProjectNotFound"
        assert "namespace" not in waiting["status"]
        assert not waiting["metadata"].get("finalizers")
        await tenant.apply(tenant.project())
        environment = await tenant.phase("Ready")
    assert environment["metadata"]["finalizers"] == ["catalyst.dev/finalizer"]
    assert environment["metadata"]["generation"] == waiting["metadata"]["generation"]


@pytest.mark.scenario("E20")
async def test_a_project_that_is_not_shared_is_reported_as_missing(
    tenant: EnvironmentHarness, other_namespace: str
) -> None:
    """The same message as for a Project that does not exist; sharing lets it proceed."""
    foreign = tenant.environment(projectRef={"name": tenant.name, "namespace": tenant.namespace})
    foreign["metadata"]["namespace"] = other_namespace
    absent = tenant.environment(
        "absent", projectRef={"name": "never", "namespace": tenant.namespace}
    )
    absent["metadata"]["namespace"] = other_namespace

    async def message(name: str) -> str:
        environment = await tenant.api.get(ENVIRONMENTS, name, other_namespace)
        return str((environment.get("status") or {}).get("message") or "")

    async with tenant.running():
        await tenant.apply(tenant.project(), foreign, absent)
        refused = await eventually(lambda: message("one"), "a message")
        unknown = await eventually(lambda: message("absent"), "a message")
        assert refused.replace(tenant.name, "never") == unknown
        await tenant.apply(tenant.project(environmentNamespaces=[other_namespace]))

        async def ready() -> bool:
            environment = await tenant.api.get(ENVIRONMENTS, "one", other_namespace)
            return bool(environment["status"]["phase"] == "Ready")

        await eventually(ready, "the shared Project is used")


@pytest.mark.scenario("E4")
async def test_the_older_spec_form_gives_the_same_objects(tenant: EnvironmentHarness) -> None:
    """Equal isolation and objects; the stored spec stays as it was written."""
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
        new_form, old_form = await tenant.phase("Ready"), await tenant.phase("Ready", "older")
        first, second = (
            await tenant.environment_namespace("one"),
            await tenant.environment_namespace("older"),
        )
        for gvr, part in ((CONFIG_MAPS, "data"), (QUOTAS, "spec"), (POLICIES, "spec")):
            assert await _part_of_objects(tenant, gvr, first, part) == await _part_of_objects(
                tenant, gvr, second, part
            )
    assert new_form["status"]["serving"]["revision"] == old_form["status"]["serving"]["revision"]
    assert await _specs(tenant, f"{tenant.name}-older", "older") == written
    assert all("source" in spec and "sources" not in spec for spec in written)


async def _specs(tenant: EnvironmentHarness, project: str, name: str) -> list[dict[str, Any]]:
    stored = await tenant.api.get(PROJECTS, project, tenant.namespace)
    return [stored["spec"], (await tenant.get(name))["spec"]]


async def _part_of_objects(
    tenant: EnvironmentHarness, gvr: GVR, namespace: str, part: str
) -> dict[str, Any]:
    objects = await tenant.api.list(gvr, namespace)
    # The cluster publishes its CA whenever it gets to it.
    others = {"windlass-inventory", "kube-root-ca.crt"}
    compared = (obj for obj in objects if obj["metadata"]["name"] not in others)
    return {obj["metadata"]["name"]: obj.get(part) for obj in compared}


@pytest.mark.scenario("E9")
async def test_an_invalid_object_affects_no_other_and_can_be_deleted(
    tenant: EnvironmentHarness,
) -> None:
    """Stored before a validation rule existed: Failed ConfigInvalid; others proceed."""
    document = crd.crd_manifest(environment.KIND)
    loosened = crd.crd_manifest(environment.KIND)
    kind = loosened["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del kind["properties"]["type"]["pattern"]
    broken = tenant.environment("broken", type="NOT A TYPE")
    refused = tenant.environment("refused", type="NOT A TYPE")

    async def is_stored() -> bool:
        try:
            await tenant.apply(broken)
        except Invalid:
            return False
        return True

    async def is_refused() -> bool:
        try:
            await tenant.api.create(ENVIRONMENTS, refused, field_manager=MANAGER, dry_run=True)
        except Invalid:
            return True
        return False

    try:
        await tenant.api.apply(_DEFINITIONS, loosened, field_manager="windlass-dev")
        await eventually(is_stored, "the broken object is stored")
    finally:
        await tenant.api.apply(_DEFINITIONS, document, field_manager="windlass-dev")
        # Watches of the former definition end when the rule is in force, and so for other tests.
        await eventually(is_refused, "the rule is in force again")
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        failed = await tenant.phase("Failed", "broken")
        rows = {row["type"]: row for row in failed["status"]["conditions"]}
        assert rows["Ready"]["reason"] == "ConfigInvalid"
        assert "type" in rows["Ready"]["message"]
        assert rows["Stalled"]["status"] == "True"
        await tenant.api.delete(ENVIRONMENTS, "broken", tenant.namespace)
        await tenant.wait_deleted(ENVIRONMENTS, "broken", tenant.namespace)


@pytest.mark.scenario("E31", "E32")
async def test_a_suspended_environment_gets_only_status_writes(tenant: EnvironmentHarness) -> None:
    """Requests are acknowledged; once resumed, all changes are applied."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        await tenant.apply(tenant.environment(suspend=True))
        environment = await tenant.condition("Ready", "Suspended")
        start = len(tenant.connection.requests_for(""))
        await tenant.apply(tenant.environment(suspend=True, quota={"pods": 7}))
        await tenant.patch(QUOTAS, "default-quota", {"spec": {"hard": {"pods": "9"}}}, namespace)
        tenant.commit({"deploy/all.yaml": CONFIG_MAP.replace("blue", "red")})
        await tenant.request_reconcile()
        environment = await tenant.condition("Ready", "Suspended")
        assert environment["status"]["observedGeneration"] == environment["metadata"]["generation"]
        assert "spec.suspend" in environment["status"]["message"]
        assert environment["status"]["phase"] == "Ready"
        requests = tenant.connection.requests_for("")[start:]
        ours = [
            request
            for request in requests
            if tenant.namespace in request.path or namespace in request.path
        ]
        writes = {request.path.rpartition("/")[2] for request in ours if request.is_write}
        assert writes <= {"status", "events"}
        await tenant.apply(tenant.environment(quota={"pods": 7}))
        await tenant.phase("Ready")
        quota = await tenant.api.get(QUOTAS, "default-quota", namespace)
        assert quota["spec"]["hard"]["pods"] == "7"

        async def red() -> bool:
            applied = await tenant.api.get(CONFIG_MAPS, "settings", namespace)
            return bool(applied["data"] == {"color": "red"})

        await eventually(red, "the new commit is applied")


@pytest.mark.scenario("E31")
async def test_an_isolation_that_nobody_checks_is_not_reported_as_in_force(
    tenant: EnvironmentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PoliciesReady is Unknown while suspended; PHASE and READY stay, also after resuming."""
    # The controller manager counts in its own time; what lasts too long is rightly reported.
    monkeypatch.setattr(isolation_writer, "_SETTLING_SECONDS", 600.0)
    async with tenant.running(poll_seconds=3600.0):
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        tenant.connection.recorded.clear()
        await tenant.apply(tenant.environment(suspend=True, quota={"pods": 7}))
        suspended = await tenant.condition("PoliciesReady", "Suspended")
        await tenant.apply(tenant.project(suspend=True), tenant.environment(quota={"pods": 7}))
        by_project = await tenant.condition("PoliciesReady", "ProjectSuspended")
        await tenant.apply(tenant.project())
        await tenant.condition("PoliciesReady", "PoliciesApplied")
        own = f"/namespaces/{tenant.namespace}/environments/one/status"
        written = [request.body["status"] for request in tenant.connection.requests_for(own)]
    for seen in (suspended, by_project):
        rows = {row["type"]: row for row in seen["status"]["conditions"]}
        assert rows["PoliciesReady"]["status"] == "Unknown"
        assert rows["PoliciesReady"]["message"].startswith("not checked: ")
    reported = [row for status in written for row in status.get("conditions", [])]
    assert {row["status"] for row in reported if row["type"] == "Ready"} == {"True"}
    assert {status["phase"] for status in written if "phase" in status} <= {"Ready"}


@pytest.mark.scenario("E30", "E31")
async def test_a_suspended_project_suspends_all_of_its_environments(
    tenant: EnvironmentHarness,
) -> None:
    """New ones do not start; the message names the Project that is suspended."""
    await tenant.apply(tenant.project(suspend=True), tenant.environment())
    async with tenant.running():
        environment = await tenant.phase("Pending")
        rows = {row["type"]: row for row in environment["status"]["conditions"]}
        assert rows["Ready"]["reason"] == "ProjectSuspended"
        assert f"Project {tenant.namespace}/{tenant.name}" in environment["status"]["message"]
        assert "namespace" not in environment["status"]
        await tenant.apply(tenant.project())
        await tenant.phase("Ready")


@pytest.mark.scenario("E32")
async def test_a_requested_reconcile_is_acknowledged(tenant: EnvironmentHarness) -> None:
    """Without a new commit nothing changes; with one, a new revision follows."""
    async with tenant.running(poll_seconds=3600.0):
        await tenant.apply(tenant.project(), tenant.environment())
        before = await tenant.phase("Ready")
        await tenant.request_reconcile()
        after = await tenant.get()
        tenant.commit({"deploy/all.yaml": CONFIG_MAP.replace("blue", "red")})
        await tenant.request_reconcile()
        newer = await tenant.get()
    assert after["status"]["serving"] == before["status"]["serving"]
    assert newer["status"]["revision"] == before["status"]["revision"] + 1


async def test_a_broken_repository_affects_no_other_project(tenant: EnvironmentHarness) -> None:
    """One with invalid manifests fails alone; one that never answers delays no other."""
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


def _phase_and_ready(environment: Any) -> tuple[str, str, str]:
    """The columns PHASE and READY of `kubectl get`, and the reason of the latter."""
    status = environment["status"]
    [ready] = [row for row in status["conditions"] if row["type"] == "Ready"]
    return status["phase"], ready["status"], ready["reason"]


async def test_an_environment_without_its_project_stays_ready(tenant: EnvironmentHarness) -> None:
    """PHASE and READY stay as they were, with reason ProjectNotFound."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
    # Without its finalizer the Project does not wait for the Environment.
    await tenant.patch(PROJECTS, tenant.name, {"metadata": {"finalizers": None}}, tenant.namespace)
    await tenant.api.delete(PROJECTS, tenant.name, tenant.namespace)
    async with tenant.running():
        environment = await tenant.condition("Ready", "ProjectNotFound")
        assert _phase_and_ready(environment) == ("Ready", "True", "ProjectNotFound")
        await tenant.apply(tenant.project())
        environment = await tenant.condition("Ready", "Succeeded")
        assert _phase_and_ready(environment)[:2] == ("Ready", "True")


async def test_an_internal_error_is_reported_in_phase_and_ready(
    tenant: EnvironmentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reconcile that raises reports InternalError; the next one recovers."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")

        async def broken(*_: object) -> Any:
            raise RuntimeError("an internal error")

        with monkeypatch.context() as patched:
            patched.setattr(
                "windlass.environments.namespace.namespace_manager.NamespaceManager.ensure", broken
            )
            stamp = {"metadata": {"annotations": {"windlass.dev/requestedAt": "now"}}}
            await tenant.patch(ENVIRONMENTS, "one", stamp, tenant.namespace)
            environment = await tenant.condition("Ready", "InternalError")
        assert _phase_and_ready(environment)[:2] == ("Deploying", "False")
        assert "error id" in environment["status"]["message"]
        environment = await tenant.phase("Ready")
        assert _phase_and_ready(environment)[:2] == ("Ready", "True")
