"""The end of an Environment: everything it made goes, nothing else does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.environments.environment_harness import (
    CONFIG_MAP,
    CONFIG_MAPS,
    ENVIRONMENTS,
    NAMESPACES,
    POLICIES,
    PROJECTS,
    EnvironmentHarness,
)
from tests.support.processes.polling import eventually
from windlass.kube.errors import ApiError, NotFound, Unavailable

pytestmark = pytest.mark.cluster

_HOLD = "example.com/hold"


@pytest.mark.scenario("E21", "E70")
async def test_a_new_commit_is_followed_and_deletion_takes_all_away(
    tenant: EnvironmentHarness,
) -> None:
    """What left the source leaves the cluster; the end waits for the namespace."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        place = await tenant.place()
        other = CONFIG_MAP.replace("settings", "other")
        tenant.commit({"deploy/all.yaml": other})
        await tenant.gone(CONFIG_MAPS, "settings", place)
        await tenant.api.get(CONFIG_MAPS, "other", place)
        assert len(await _revisions(tenant, "NamespaceCreated", 1)) == 1
        assert len(await _revisions(tenant, "PoliciesApplied", 1)) == 1
        # No condition changes by the second one; it is news all the same.
        assert await _revisions(tenant, "Deployed", 2) == ["1", "2"]
        await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
        await tenant.phase("Deleting")
        await tenant.gone(ENVIRONMENTS, "one", tenant.namespace)
        # The finalizer goes only after it, so one look is enough.
        with pytest.raises(NotFound):
            await tenant.api.get(NAMESPACES, place)
        assert len(await _revisions(tenant, "NamespaceDeleted", 1)) == 1
    deletes = [one for one in tenant.connection.about(place) if one.method == "DELETE"]
    ends = [one for one in deletes if one.path.endswith(f"/namespaces/{place}")]
    assert len(ends) == 1
    assert ends[0].body["preconditions"]["uid"]


async def _revisions(tenant: EnvironmentHarness, reason: str, number: int) -> list[str]:
    """The revisions that the events of a reason are about, once there are so many."""

    async def found() -> list[Any]:
        events = await tenant.events(reason)
        return events if len(events) >= number else []

    events = await eventually(found, f"{number} events {reason}")
    notes = [(event["metadata"].get("annotations") or {}) for event in events]
    return sorted(row.get("catalyst.dev/revision", "") for row in notes)


@pytest.mark.scenario("E22", "E122")
async def test_deletion_needs_nobody_and_believes_no_status(
    tenant: EnvironmentHarness, other_namespace: str
) -> None:
    """Without Project and labels, and with a forged status, exactly its own namespace goes."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        place = await tenant.place()
    before = await tenant.api.get(NAMESPACES, other_namespace)
    forged = {"status": {"namespace": other_namespace, "namespaceUID": "x"}}
    await tenant.patch(ENVIRONMENTS, "one", forged, tenant.namespace, subresource="status")
    labels = {"app.kubernetes.io/managed-by": None, "catalyst.dev/project": None}
    await tenant.patch(NAMESPACES, place, {"metadata": {"labels": labels}})
    await tenant.api.delete(PROJECTS, tenant.name, tenant.namespace)
    await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
    async with tenant.running():
        await tenant.gone(NAMESPACES, place)
        await tenant.gone(ENVIRONMENTS, "one", tenant.namespace)
    after = await tenant.api.get(NAMESPACES, other_namespace)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert not [one for one in tenant.connection.about(other_namespace) if one.is_write]


async def _held(tenant: EnvironmentHarness, place: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": place, "finalizers": [_HOLD]},
    }
    await tenant.api.create(CONFIG_MAPS, body, field_manager="somebody")


async def _let_go(tenant: EnvironmentHarness, place: str) -> None:
    await tenant.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, place)


@pytest.mark.scenario("E23")
async def test_what_holds_a_namespace_is_named_and_not_touched(tenant: EnvironmentHarness) -> None:
    """Kind and finalizer in blockedBy, one DELETE only; once it is let go, all is gone."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        place = await tenant.place()
        await _held(tenant, place)
        await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)

        async def blocked() -> Any:
            status = (await tenant.get())["status"]
            return status if (status.get("deletion") or {}).get("blockedBy") else None

        status = await eventually(blocked, "the end is held up")
        text = " ".join(status["deletion"]["blockedBy"])
        assert "configmaps" in text
        assert _HOLD in text
        assert status["phase"] == "Deleting"
        assert f"kubectl get namespace {place}" in status["message"]
        assert _HOLD in status["message"]
        assert tenant.metrics.namespace_delete_blocked.child(())._value.get() == 1

        async def told() -> Any:
            return await tenant.events("DeletionBlocked")

        await eventually(told, "an event")
        held = await tenant.api.get(CONFIG_MAPS, "held", place)
        assert held["metadata"]["finalizers"] == [_HOLD]
        asked = [one for one in tenant.connection.about(place) if one.method == "DELETE"]
        assert len(asked) == 1
        await _let_go(tenant, place)
        await tenant.gone(ENVIRONMENTS, "one", tenant.namespace)
        assert tenant.metrics.namespace_delete_blocked.child(())._value.get() == 0


async def test_a_finalizer_of_the_namespace_itself_is_named(tenant: EnvironmentHarness) -> None:
    """No condition of the namespace speaks of it, and nothing else is left."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        place = await tenant.place()
        await tenant.patch(NAMESPACES, place, {"metadata": {"finalizers": [_HOLD]}})
        await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)

        async def named() -> bool:
            status = (await tenant.get()).get("status") or {}
            return f"finalizer {_HOLD} on namespace {place}" in status["message"]

        await eventually(named, "the finalizer is named")
        await tenant.patch(NAMESPACES, place, {"metadata": {"finalizers": None}})
        await tenant.gone(ENVIRONMENTS, "one", tenant.namespace)


@pytest.mark.scenario("E24")
async def test_a_namesake_waits_for_the_old_namespace(tenant: EnvironmentHarness) -> None:
    """Another uid, another namespace, nothing shared."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        old = await tenant.phase("Ready")
        place = await tenant.place()
        await _held(tenant, place)
        await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
        await tenant.phase("Deleting")
        await tenant.patch(
            ENVIRONMENTS, "one", {"metadata": {"finalizers": None}}, tenant.namespace
        )
        await tenant.gone(ENVIRONMENTS, "one", tenant.namespace)
        await tenant.apply(tenant.environment())
        waiting = await tenant.condition("NamespaceReady", "NamespaceTerminating")
        assert waiting["metadata"]["uid"] != old["metadata"]["uid"]
        await _let_go(tenant, place)
        new = await tenant.phase("Ready", seconds=40.0)
        made = await tenant.api.get(NAMESPACES, place)
        owner = made["metadata"]["annotations"]["catalyst.dev/environment-uid"]
        assert owner == new["metadata"]["uid"]
        assert new["status"]["namespaceUID"] != old["status"]["namespaceUID"]


async def _project(tenant: EnvironmentHarness) -> Any:
    return await tenant.api.get(PROJECTS, tenant.name, tenant.namespace)


@pytest.mark.scenario("E27")
async def test_a_project_waits_for_its_environments(
    tenant: EnvironmentHarness, other_namespace: str
) -> None:
    """Block names them and deletes none; they run on, isolated; without them it goes."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment("one"), tenant.environment("two"))
        await tenant.phase("Ready", "one")
        await tenant.phase("Ready", "two")
        place = await tenant.place()
        # One that the Project is not shared with holds nobody up.
        stranger = tenant.environment("stranger")
        stranger["metadata"]["namespace"] = other_namespace
        stranger["spec"]["projectRef"]["namespace"] = tenant.namespace
        await tenant.apply(stranger)
        await tenant.api.delete(PROJECTS, tenant.name, tenant.namespace)

        async def blocked() -> Any:
            rows = (await _project(tenant))["status"]["conditions"]
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
        await tenant.api.delete(POLICIES, "default-policy", place)

        async def isolated() -> bool:
            found = await tenant.api.list(POLICIES, place)
            return "default-policy" in {row["metadata"]["name"] for row in found}

        await eventually(isolated, "the policy is back")
        for name in ("one", "two", "late"):
            found = await tenant.get(name)
            assert not found["metadata"].get("deletionTimestamp")
            await tenant.api.delete(ENVIRONMENTS, name, tenant.namespace)
        await tenant.gone(PROJECTS, tenant.name, tenant.namespace)
        await tenant.api.get(ENVIRONMENTS, "stranger", other_namespace)


@pytest.mark.scenario("E27")
async def test_a_project_may_take_its_environments_along(
    tenant: EnvironmentHarness, other_namespace: str
) -> None:
    """Cascade deletes those that it is shared with, waits for them, and then goes."""
    async with tenant.running():
        await tenant.apply(
            tenant.project(deletionPolicy="Cascade"),
            tenant.environment("one"),
            tenant.environment("two"),
        )
        await tenant.phase("Ready", "one")
        await tenant.phase("Ready", "two")
        places = [await tenant.place(name) for name in ("one", "two")]
        stranger = tenant.environment("stranger")
        stranger["metadata"]["namespace"] = other_namespace
        stranger["spec"]["projectRef"]["namespace"] = tenant.namespace
        await tenant.apply(stranger)
        await tenant.api.delete(PROJECTS, tenant.name, tenant.namespace)
        await tenant.gone(PROJECTS, tenant.name, tenant.namespace)
        for name, place in zip(("one", "two"), places, strict=True):
            await tenant.gone(ENVIRONMENTS, name, tenant.namespace)
            await tenant.gone(NAMESPACES, place)
        kept = await tenant.api.get(ENVIRONMENTS, "stranger", other_namespace)
        assert not kept["metadata"].get("deletionTimestamp")


class _Speechless:
    """An API server that cannot be asked."""

    async def get(self, *_: object) -> Any:
        raise Unavailable(503, "ServiceUnavailable", "try again later")

    async def list(self, *_: object) -> Any:
        raise Unavailable(503, "ServiceUnavailable", "try again later")


class _Unserved(_Speechless):
    """An API server that does not serve our kind just now; to it nothing of the kind is there."""

    async def get(self, *_: object) -> Any:
        raise NotFound(404, "NotFound", "the server could not find the requested resource")

    list = get


@pytest.mark.scenario("E25", "E26")
async def test_an_orphan_is_removed_after_two_looks(
    tenant: EnvironmentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what carries our uid goes; a look-alike stays, and a failed question is no answer."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        place = await tenant.place()
    await tenant.patch(ENVIRONMENTS, "one", {"metadata": {"finalizers": None}}, tenant.namespace)
    await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
    alike = f"alike-{tenant.namespace}"
    labels = {"app.kubernetes.io/managed-by": "windlass", "catalyst.dev/project": "x"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": alike, "labels": labels}}
    await tenant.api.create(NAMESPACES, body, field_manager="somebody")
    async with tenant.running(cleanup_seconds=3600.0) as controller:

        async def seen() -> bool:
            return controller.owned_cache.namespace(place) is not None

        await eventually(seen, "the cache knows the namespace")
        assert place not in await controller._orphan_cleanup.run_once()
        with monkeypatch.context() as patched:
            for silent in (_Speechless(), _Unserved()):
                patched.setattr(controller._orphan_cleanup, "_api", silent)
                with pytest.raises(ApiError):
                    await controller._orphan_cleanup.run_once()
        assert "deletionTimestamp" not in (await tenant.api.get(NAMESPACES, place))["metadata"]
        assert place in await controller._orphan_cleanup.run_once()
        await tenant.gone(NAMESPACES, place)
    assert "deletionTimestamp" not in (await tenant.api.get(NAMESPACES, alike))["metadata"]
    await tenant.api.delete(NAMESPACES, alike)
