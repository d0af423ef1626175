"""Deletion of an Environment: everything it created goes, and nothing else."""

from __future__ import annotations

from typing import Any, Literal

import orjson
import pytest

from tests.support.environments.environment_harness import (
    CONFIG_MAP,
    CONFIG_MAPS,
    ENVIRONMENTS,
    NAMESPACES,
    POLICIES,
    PROJECTS,
    EnvironmentHarness,
    RecordedRequest,
)
from tests.support.processes.polling import eventually
from windlass.environments import owned_objects
from windlass.environments.namespace.namespace_manager import NamespaceManager
from windlass.environments.namespace.naming import NamingRules
from windlass.environments.owned_cache import OwnedCache
from windlass.environments.ownership import Ownership
from windlass.kube.api import Api
from windlass.kube.errors import ApiError, NotFound, Unavailable
from windlass.kube.reflector import Observed
from windlass.runtime.informer_registry import InformerRegistry
from windlass.runtime.owned import OwnedObjects

pytestmark = pytest.mark.cluster

_HOLD = "example.com/hold"


@pytest.mark.scenario("E21", "E30", "E70")
async def test_a_new_commit_is_applied_and_deletion_removes_everything(
    tenant: EnvironmentHarness,
) -> None:
    """Removed objects are pruned; the finalizer waits for the namespace."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        other = CONFIG_MAP.replace("settings", "other")
        tenant.commit({"deploy/all.yaml": other})
        await tenant.wait_deleted(CONFIG_MAPS, "settings", namespace)
        await tenant.api.get(CONFIG_MAPS, "other", namespace)
        assert len(await _revisions(tenant, "NamespaceCreated", 1)) == 1
        assert len(await _revisions(tenant, "PoliciesApplied", 1)) == 1
        # The second revision changes no condition, but has an Event of its own.
        assert await _revisions(tenant, "Deployed", 2) == ["1", "2"]
        await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
        await tenant.wait_deleted(ENVIRONMENTS, "one", tenant.namespace)
        # The finalizer is removed after the namespace, so no polling is needed.
        with pytest.raises(NotFound):
            await tenant.api.get(NAMESPACES, namespace)
        assert len(await _revisions(tenant, "NamespaceDeleted", 1)) == 1
    # What was written; the Environment itself may be gone before anybody has looked.
    own = f"/namespaces/{tenant.namespace}/environments/one/status"
    reports = [request.body["status"] for request in tenant.connection.requests_for(own)]
    assert "Deleting" in {report.get("phase") for report in reports}
    namespace_deletes = [
        request
        for request in _deletes(tenant, namespace)
        if request.path.endswith(f"/namespaces/{namespace}")
    ]
    assert namespace_deletes
    assert all(request.body["preconditions"]["uid"] for request in namespace_deletes)


def _deletes(tenant: EnvironmentHarness, namespace: str) -> list[RecordedRequest]:
    """The requests that delete a namespace, or something in it."""
    requests = tenant.connection.requests_for(namespace)
    return [request for request in requests if request.method == "DELETE"]


async def _revisions(tenant: EnvironmentHarness, reason: str, number: int) -> list[str]:
    """The revisions in the Events with a reason, once there are `number` of them."""

    async def reported() -> list[Any]:
        events = await tenant.events(reason)
        return events if len(events) >= number else []

    events = await eventually(reported, f"{number} Events {reason}")
    notes = [(event["metadata"].get("annotations") or {}) for event in events]
    return sorted(row.get("catalyst.dev/revision", "") for row in notes)


@pytest.mark.scenario("E22", "E122")
async def test_deletion_needs_no_project_and_trusts_no_status(
    tenant: EnvironmentHarness, other_namespace: str
) -> None:
    """Without Project and labels, and with a forged status, only its own namespace is deleted."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
    before = await tenant.api.get(NAMESPACES, other_namespace)
    forged = {"status": {"namespace": other_namespace, "namespaceUID": "x"}}
    await tenant.patch(ENVIRONMENTS, "one", forged, tenant.namespace, subresource="status")
    labels = {"app.kubernetes.io/managed-by": None, "catalyst.dev/project": None}
    await tenant.patch(NAMESPACES, namespace, {"metadata": {"labels": labels}})
    await tenant.api.delete(PROJECTS, tenant.name, tenant.namespace)
    await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
    async with tenant.running():
        await tenant.wait_deleted(NAMESPACES, namespace)
        await tenant.wait_deleted(ENVIRONMENTS, "one", tenant.namespace)
    after = await tenant.api.get(NAMESPACES, other_namespace)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert not [
        request for request in tenant.connection.requests_for(other_namespace) if request.is_write
    ]


async def _hold_namespace(tenant: EnvironmentHarness, namespace: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": namespace, "finalizers": [_HOLD]},
    }
    await tenant.api.create(CONFIG_MAPS, body, field_manager="another-client")


async def _wait_blocked_gauge(tenant: EnvironmentHarness) -> None:
    """Wait until the gauge counts the Environments whose status names what blocks them.

    Other tests share the cluster, and may leave such Environments.
    """

    async def agrees() -> bool:
        environments = await tenant.api.list(ENVIRONMENTS)
        deletions = ((item.get("status") or {}).get("deletion") or {} for item in environments)
        blocked = sum(bool(deletion.get("blockedBy")) for deletion in deletions)
        gauge = tenant.metrics.namespace_delete_blocked.child(())
        return int(gauge._value.get()) == blocked

    await eventually(agrees, "the gauge counts blocked deletions")


async def _release_namespace(tenant: EnvironmentHarness, namespace: str) -> None:
    await tenant.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, namespace)


@pytest.mark.scenario("E23")
async def test_a_finalizer_that_blocks_deletion_is_named_and_not_removed(
    tenant: EnvironmentHarness,
) -> None:
    """BlockedBy has kind and finalizer, no DELETE is repeated; without it deletion completes."""
    async with tenant.running() as controller:
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        await _hold_namespace(tenant, namespace)
        await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)

        async def blocked() -> Any:
            status = (await tenant.get())["status"]
            return status if (status.get("deletion") or {}).get("blockedBy") else None

        status = await eventually(blocked, "the deletion is blocked")
        text = " ".join(status["deletion"]["blockedBy"])
        assert "configmaps" in text
        assert _HOLD in text
        assert status["phase"] == "Deleting"
        assert f"kubectl get namespace {namespace}" in status["message"]
        assert _HOLD in status["message"]
        await _wait_blocked_gauge(tenant)

        async def reported() -> Any:
            return await tenant.events("DeletionBlocked")

        await eventually(reported, "an Event")
        held = await tenant.api.get(CONFIG_MAPS, "held", namespace)
        assert held["metadata"]["finalizers"] == [_HOLD]
        # What blocks it was read from the terminating namespace: from now on the watch shows it.
        deletes = _deletes(tenant, namespace)
        assert deletes
        await tenant.reconcile_times(controller, 3)
        assert _deletes(tenant, namespace) == deletes
        await _release_namespace(tenant, namespace)
        await tenant.wait_deleted(ENVIRONMENTS, "one", tenant.namespace)
        await _wait_blocked_gauge(tenant)


async def test_a_finalizer_of_the_namespace_itself_is_named(tenant: EnvironmentHarness) -> None:
    """No condition of the namespace names it, and no other object is left."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        await tenant.patch(NAMESPACES, namespace, {"metadata": {"finalizers": [_HOLD]}})
        await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)

        async def named() -> bool:
            status = (await tenant.get()).get("status") or {}
            return f"finalizer {_HOLD} on namespace {namespace}" in status["message"]

        await eventually(named, "the finalizer is named")
        await tenant.patch(NAMESPACES, namespace, {"metadata": {"finalizers": None}})
        await tenant.wait_deleted(ENVIRONMENTS, "one", tenant.namespace)


class _LateWatch:
    """The operator's manager of namespaces, whose cache has only what a test puts into it."""

    def __init__(self, tenant: EnvironmentHarness) -> None:
        api = Api(tenant.connection)
        cache = OwnedCache(InformerRegistry(None), lambda _: None)  # type: ignore[arg-type]
        self._informer = cache._informers[NAMESPACES]
        self.namespaces = NamespaceManager(
            api, cache, OwnedObjects(api, "test"), NamingRules(), field_manager="test"
        )

    def deliver(self, change: Literal["ADDED", "DELETED"], namespace: Any) -> None:
        self._informer.apply(Observed(change, orjson.dumps(namespace), False))


async def _create_held_namespace(tenant: EnvironmentHarness) -> Any:
    """A namespace of the Environment with uid `uid-e`, which a finalizer keeps."""
    owner = Ownership("uid-e", tenant.namespace, "one", tenant.name)
    name = f"{tenant.namespace}-held"
    desired = owned_objects.namespace(name, owner, "baseline")
    await Api(tenant.connection).create(NAMESPACES, desired, field_manager="test")
    await tenant.patch(NAMESPACES, name, {"metadata": {"finalizers": [_HOLD]}})
    return await tenant.api.get(NAMESPACES, name)


async def _release_and_wait(tenant: EnvironmentHarness, name: str) -> None:
    await tenant.patch(NAMESPACES, name, {"metadata": {"finalizers": None}})
    await tenant.wait_deleted(NAMESPACES, name)


@pytest.mark.parametrize("is_cached", [True, False])
async def test_a_late_watch_repeats_no_delete(tenant: EnvironmentHarness, is_cached: bool) -> None:
    """The answer counts until the cache changes; a cache without the namespace never does."""
    watch, live = _LateWatch(tenant), await _create_held_namespace(tenant)
    name = live["metadata"]["name"]
    if is_cached:
        watch.deliver("ADDED", live)
    for _ in range(2):
        terminating = await watch.namespaces.remove(name, "uid-e")
        assert terminating is not None
        assert terminating["metadata"]["deletionTimestamp"]
    assert len(_deletes(tenant, name)) == 1
    await _release_and_wait(tenant, name)
    if is_cached:
        watch.deliver("DELETED", live)
    assert await watch.namespaces.remove(name, "uid-e") is None


async def test_a_namespace_that_only_a_late_cache_shows_is_gone(tenant: EnvironmentHarness) -> None:
    """The API server says so in its answer to the DELETE: nothing waits for the watch."""
    watch, live = _LateWatch(tenant), await _create_held_namespace(tenant)
    name = live["metadata"]["name"]
    await tenant.api.delete(NAMESPACES, name)
    await _release_and_wait(tenant, name)
    watch.deliver("ADDED", live)
    assert await watch.namespaces.remove(name, "uid-e") is None


async def _wait_message(tenant: EnvironmentHarness, *parts: str) -> None:
    """Wait until the message of the Environment contains all `parts`."""

    async def has_parts() -> bool:
        message = ((await tenant.get()).get("status") or {}).get("message") or ""
        return all(part in message for part in parts)

    await eventually(has_parts, f"the message contains {parts}")


async def test_a_finalizer_that_keeps_a_deleted_namespace_is_named(
    tenant: EnvironmentHarness,
) -> None:
    """Somebody deleted the namespace of a living Environment; without it, it is created again."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        old = await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        await _hold_namespace(tenant, namespace)
        await tenant.api.delete(NAMESPACES, namespace)
        await tenant.condition("NamespaceReady", "NamespaceTerminating")
        await _wait_message(tenant, _HOLD, f"kubectl get namespace {namespace}")
        await _release_namespace(tenant, namespace)
        new = await tenant.phase("Ready", seconds=40.0)
    assert new["status"]["namespaceUID"] != old["status"]["namespaceUID"]


@pytest.mark.scenario("E24")
async def test_a_new_environment_of_the_same_name_waits_for_the_old_namespace(
    tenant: EnvironmentHarness,
) -> None:
    """It has another uid and gets a new namespace."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        old = await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        await _hold_namespace(tenant, namespace)
        await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
        await tenant.phase("Deleting")
        await tenant.patch(
            ENVIRONMENTS, "one", {"metadata": {"finalizers": None}}, tenant.namespace
        )
        await tenant.wait_deleted(ENVIRONMENTS, "one", tenant.namespace)
        await tenant.apply(tenant.environment())
        waiting = await tenant.condition("NamespaceReady", "NamespaceTerminating")
        assert waiting["metadata"]["uid"] != old["metadata"]["uid"]
        await _wait_message(tenant, _HOLD, f"kubectl get namespace {namespace}")
        await _release_namespace(tenant, namespace)
        new = await tenant.phase("Ready", seconds=40.0)
        created = await tenant.api.get(NAMESPACES, namespace)
        owner = created["metadata"]["annotations"]["catalyst.dev/environment-uid"]
        assert owner == new["metadata"]["uid"]
        assert new["status"]["namespaceUID"] != old["status"]["namespaceUID"]


async def _project(tenant: EnvironmentHarness) -> Any:
    return await tenant.api.get(PROJECTS, tenant.name, tenant.namespace)


@pytest.mark.scenario("E27")
async def test_a_project_waits_for_its_environments(
    tenant: EnvironmentHarness, other_namespace: str
) -> None:
    """Block names them and deletes none; they stay isolated; without them it is deleted."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment("one"), tenant.environment("two"))
        await tenant.phase("Ready", "one")
        await tenant.phase("Ready", "two")
        namespace = await tenant.environment_namespace()
        # One that the Project is not shared with does not block.
        stranger = tenant.environment("stranger")
        stranger["metadata"]["namespace"] = other_namespace
        stranger["spec"]["projectRef"]["namespace"] = tenant.namespace
        await tenant.apply(stranger)
        await tenant.api.delete(PROJECTS, tenant.name, tenant.namespace)

        async def blocked() -> Any:
            # None at all until the Git server has answered for the first time.
            rows = ((await _project(tenant)).get("status") or {}).get("conditions") or []
            return {row["type"]: row for row in rows}.get("DeletionBlocked")

        row = await eventually(blocked, "the deletion is blocked")
        assert (row["status"], row["reason"]) == ("True", "EnvironmentsExist")
        assert row["message"] == (
            f"2 Environments use this Project: {tenant.namespace}/one, {tenant.namespace}/two; "
            "delete them, or set spec.deletionPolicy to Cascade"
        )
        [event] = await eventually(lambda: tenant.events("DeletionBlocked"), "an Event")
        assert event["type"] == "Warning"
        await tenant.apply(tenant.environment("late"))
        late = await tenant.phase("Pending", "late")
        assert "ProjectTerminating" in str(late["status"]["conditions"])
        assert late["status"]["message"] == (
            f"Project {tenant.namespace}/{tenant.name} is being deleted; delete this Environment, "
            "or create the Project again"
        )
        await tenant.api.delete(POLICIES, "default-policy", namespace)

        async def isolated() -> bool:
            policies = await tenant.api.list(POLICIES, namespace)
            return "default-policy" in {row["metadata"]["name"] for row in policies}

        await eventually(isolated, "the policy is restored")
        for name in ("one", "two", "late"):
            environment = await tenant.get(name)
            assert not environment["metadata"].get("deletionTimestamp")
            await tenant.api.delete(ENVIRONMENTS, name, tenant.namespace)
        await tenant.wait_deleted(PROJECTS, tenant.name, tenant.namespace)
        await tenant.api.get(ENVIRONMENTS, "stranger", other_namespace)


@pytest.mark.scenario("E27")
async def test_a_project_may_delete_its_environments(
    tenant: EnvironmentHarness, other_namespace: str
) -> None:
    """Cascade deletes those that it is shared with, waits for them, and then is deleted."""
    async with tenant.running():
        await tenant.apply(
            tenant.project(deletionPolicy="Cascade"),
            tenant.environment("one"),
            tenant.environment("two"),
        )
        await tenant.phase("Ready", "one")
        await tenant.phase("Ready", "two")
        namespaces = [await tenant.environment_namespace(name) for name in ("one", "two")]
        stranger = tenant.environment("stranger")
        stranger["metadata"]["namespace"] = other_namespace
        stranger["spec"]["projectRef"]["namespace"] = tenant.namespace
        await tenant.apply(stranger)
        await tenant.api.delete(PROJECTS, tenant.name, tenant.namespace)
        await tenant.wait_deleted(PROJECTS, tenant.name, tenant.namespace)
        for name, namespace in zip(("one", "two"), namespaces, strict=True):
            await tenant.wait_deleted(ENVIRONMENTS, name, tenant.namespace)
            await tenant.wait_deleted(NAMESPACES, namespace)
        remaining = await tenant.api.get(ENVIRONMENTS, "stranger", other_namespace)
        assert not remaining["metadata"].get("deletionTimestamp")


class _UnavailableApi:
    """An API server that is unavailable."""

    async def get(self, *_: object) -> Any:
        raise Unavailable(503, "ServiceUnavailable", "try again later")

    async def list(self, *_: object) -> Any:
        raise Unavailable(503, "ServiceUnavailable", "try again later")


class _UnservedApi(_UnavailableApi):
    """An API server that does not serve our kind, so every read is NotFound."""

    async def get(self, *_: object) -> Any:
        raise NotFound(404, "NotFound", "the server could not find the requested resource")

    list = get


@pytest.mark.scenario("E25", "E26")
async def test_an_orphan_is_deleted_by_the_second_cleanup(
    tenant: EnvironmentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only with our uid annotation; similar labels are not enough, nor is a failed read."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
    await tenant.patch(ENVIRONMENTS, "one", {"metadata": {"finalizers": None}}, tenant.namespace)
    await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
    similar = f"similar-{tenant.namespace}"
    labels = {"app.kubernetes.io/managed-by": "windlass", "catalyst.dev/project": "x"}
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": similar, "labels": labels},
    }
    await tenant.api.create(NAMESPACES, body, field_manager="another-client")
    async with tenant.running(cleanup_seconds=3600.0) as controller:

        async def cached() -> bool:
            return controller.owned_cache.namespace(namespace) is not None

        await eventually(cached, "the namespace is cached")
        assert namespace not in await controller._orphan_cleanup.run_once()
        with monkeypatch.context() as patched:
            for api in (_UnavailableApi(), _UnservedApi()):
                patched.setattr(controller._orphan_cleanup, "_api", api)
                with pytest.raises(ApiError):
                    await controller._orphan_cleanup.run_once()
        assert "deletionTimestamp" not in (await tenant.api.get(NAMESPACES, namespace))["metadata"]
        assert namespace in await controller._orphan_cleanup.run_once()
        await tenant.wait_deleted(NAMESPACES, namespace)
    assert "deletionTimestamp" not in (await tenant.api.get(NAMESPACES, similar))["metadata"]
    await tenant.api.delete(NAMESPACES, similar)
