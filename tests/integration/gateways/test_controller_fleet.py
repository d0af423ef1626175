"""Many agents, broken pods, forged reports, failing lists, and the deletion of a CR."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from tests.support.gateways.fleet import (
    CONFIG_MAPS,
    MANAGER,
    ROLE_BINDINGS,
    ROLES,
    Fleet,
    FleetPod,
    RunningController,
    running_controller,
)
from tests.support.git.http_server import branch_tips, commit_files
from tests.support.processes.polling import eventually
from windlass.api.install import rbac
from windlass.api.kinds.registry import IGNITION_SYNCS
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import Forbidden
from windlass.objects.names import GVR
from windlass_dev.git_server.fault_injection import GitFault

if TYPE_CHECKING:
    from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster]

_CLUSTER_ROLES = GVR("rbac.authorization.k8s.io", "v1", "clusterroles")
_CLUSTER_BINDINGS = GVR("rbac.authorization.k8s.io", "v1", "clusterrolebindings")


@pytest.mark.scenario("G61")
async def test_two_hundred_agents_report_at_once(
    fleet: Fleet, connection: Connection, tmp_path: Path
) -> None:
    """No report fails, all are counted, and the status is written only a few times."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    pods = []
    for start in range(0, 200, 20):
        batch = (fleet.pod(f"gw-{number:03d}") for number in range(start, start + 20))
        pods += await asyncio.gather(*batch)
    started = asyncio.get_running_loop().time()
    async with running_controller(connection, tmp_path, status_interval_seconds=2.0) as running:
        await fleet.until("SyncInProgress", "AllGatewaysSynced", message="0 of 200", seconds=60)
        published = await pods[-1].metadata()
        assert len(published.status_objects) == 200
        await asyncio.gather(*(pod.write(published, pod.synced(published)) for pod in pods))
        await fleet.until("SyncSucceeded", seconds=30)
        written = running.value("reconcile_total", result="done") or 0
        # On a slow machine the reports take longer, which is more intervals.
        assert written <= 3 + (asyncio.get_running_loop().time() - started) / 2.0
    status = await fleet.status()
    assert status["gatewayCounts"] | {"synced": 200, "total": 200} == status["gatewayCounts"]
    assert {row["syncStatus"] for row in status["discoveredGateways"]} == {"Synced"}
    assert len({row["podUID"] for row in status["discoveredGateways"]}) == 200


@pytest.mark.scenario("G61")
async def test_a_recreated_pod_never_shows_the_old_state(
    fleet: Fleet, running: RunningController
) -> None:
    """Its entry is removed with the pod; the new one begins without a report."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    old = await fleet.pod("one")
    await old.report()
    await fleet.until("SyncSucceeded")
    name = (await old.metadata()).status_objects["one"].name
    await old.delete()
    await fleet.until("NoGatewaysDiscovered")

    async def is_gone() -> bool:
        return await fleet.find(CONFIG_MAPS, name) is None

    await eventually(is_gone, "the deletion of its status object")
    new = await fleet.pod("one")
    await fleet.until("SyncInProgress")
    (row,) = (await fleet.status())["discoveredGateways"]
    assert row["podUID"] == new.uid
    assert row["syncStatus"] == "Pending"
    published = await new.metadata()
    await new.write(published, new.synced(published, pod_uid=old.uid))
    await eventually(running.idle, "the reconcile")
    assert (await fleet.condition())["reason"] == "SyncInProgress"


async def test_forged_reports_are_ignored(fleet: Fleet, running: RunningController) -> None:
    """A report that is not JSON, out of bounds or of another pod changes nothing."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    pod = await fleet.pod("one")
    published = await pod.metadata()
    for text in (
        "{",
        "[]",
        json.dumps({"podUID": pod.uid, "syncStatus": "Perfect"}),
        json.dumps({"gateway": "x" * 5000, "podName": "one", "podUID": pod.uid}),
        "x" * 200_000,
    ):
        await pod.write_text(published, text)
        row = await eventually(lambda: _message(fleet, "report is invalid"), "the row")
        assert row["syncStatus"] == "Pending"
    await pod.report()
    await fleet.until("SyncSucceeded")


async def _message(fleet: Fleet, text: str) -> dict[str, Any]:
    rows = (await fleet.status()).get("discoveredGateways", [])
    return next((row for row in rows if text in row.get("message", "")), {})


async def test_pods_without_a_running_agent_are_reported(
    fleet: Fleet, running: RunningController
) -> None:
    """A missing or stopped agent overrides any report; a waiting init container is not counted."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    without_sidecar, crashing = await fleet.pod("bare", sidecar=False), await fleet.pod("broken")
    early, waiting = await fleet.pod("early"), await fleet.pod("waiting")
    await early.set_status("Pending", {"running": {}})
    await waiting.set_status("Pending", {"waiting": {"reason": "PodInitializing"}})
    await crashing.report()
    await crashing.set_status(
        "Running", {"waiting": {"reason": "CrashLoopBackOff"}}, restartCount=3
    )
    await fleet.until("SyncFailed", message="1 missing sidecar")

    async def gateway_states() -> dict[str, str]:
        rows = (await fleet.status()).get("discoveredGateways", [])
        states = {row["podName"]: row["syncStatus"] for row in rows}
        return states if states.get("broken") == "Error" else {}

    states = await eventually(gateway_states, "the stopped agent")
    assert states == {"bare": "MissingSidecar", "broken": "Error", "early": "Pending"}
    (event,) = await eventually(lambda: fleet.events("MissingSidecar"), "the event")
    assert (event["type"], "bare" in event["note"]) == ("Warning", True)
    assert "waiting" in (await fleet.published())["statusObjects"]
    await without_sidecar.delete()
    await fleet.until("SyncFailed", message="0 of 2 gateways synced: broken: AgentNotRunning")


@pytest.mark.scenario("G31")
async def test_replicas_are_distinguished(fleet: Fleet, running: RunningController) -> None:
    """Five replicas share labels and annotations; scaling from one to five renames no gateway."""

    async def replica(number: int) -> FleetPod:
        labels = {
            "app.kubernetes.io/name": "area",
            "statefulset.kubernetes.io/pod-name": f"area-{number}",
            "apps.kubernetes.io/pod-index": str(number),
        }
        return await fleet.pod(f"area-{number}", labels=labels)

    await fleet.secret()
    await fleet.apply(fleet.sync())
    await (await replica(0)).report()
    await fleet.until("SyncSucceeded", message="1 of 1")
    names = {"area-0": "area"}
    assert await _names(fleet) == names
    for pod in [await replica(number) for number in range(1, 5)]:
        await pod.report()
    await fleet.until("SyncSucceeded", message="5 of 5")
    names |= {f"area-{number}": f"area-{number}" for number in range(1, 5)}
    assert await _names(fleet) == names
    summary = await fleet.wait_for(CONFIG_MAPS, "ignition-sync-status-site")
    assert set(names) <= set(summary["data"])


async def _names(fleet: Fleet) -> dict[str, str]:
    rows = (await fleet.status())["discoveredGateways"]
    return {row["podName"]: row["name"] for row in rows}


async def test_a_pod_of_two_syncs_belongs_to_neither(
    fleet: Fleet, running: RunningController
) -> None:
    """Without cr-name a second CR makes the pod ambiguous; a selector resolves it."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    await fleet.pod("one", labels={"team": "a"})
    await fleet.pod("two", cr_name="other")
    await fleet.until("SyncInProgress", message="0 of 1")
    await fleet.apply(fleet.sync("other"))
    await fleet.until("SyncInProgress", name="other", message="0 of 1")
    await fleet.until("NoGatewaysDiscovered")
    await fleet.apply(fleet.sync("other", podSelector={"matchLabels": {"team": "b"}}))
    await fleet.until("SyncInProgress", message="0 of 1")
    await fleet.until("NoGatewaysDiscovered", name="other")


@pytest.mark.scenario("G62")
async def test_a_failing_pod_list_removes_nothing(
    cluster: LocalCluster, fleet: Fleet, connection: Connection, tmp_path: Path
) -> None:
    """A controller that may not list pods still publishes commits; rights and counts stay."""
    await fleet.secret()
    async with running_controller(connection, tmp_path / "first") as first:
        await fleet.apply(fleet.sync())
        await (await fleet.pod("one")).report()
        await fleet.until("SyncSucceeded")
        await eventually(first.idle, "the reconcile")
    before = [
        await fleet.wait_for(gvr, "ignition-sync-agent-site") for gvr in (ROLES, ROLE_BINDINGS)
    ]
    rows = (await fleet.status())["discoveredGateways"]
    kubeconfig = await _without_pods(cluster, fleet)
    commit = commit_files(fleet.repository, {"a": "2"})
    async with (
        Connection.open(kubeconfig=kubeconfig) as restricted,
        running_controller(restricted, tmp_path / "restricted", pods_timeout_seconds=0.5),
    ):
        published = await fleet.until_published("commit", commit)
        assert "one" in published["statusObjects"]
        await fleet.until("Reconciling", message="pods")
    after = [
        await fleet.wait_for(gvr, "ignition-sync-agent-site") for gvr in (ROLES, ROLE_BINDINGS)
    ]
    assert after == before
    status = await fleet.status()
    assert status["discoveredGateways"] == rows
    assert status["gatewayCounts"]["total"] == 1


async def _without_pods(cluster: LocalCluster, fleet: Fleet) -> Path:
    """A user with the generated role of the capability, without access to pods."""
    user = f"restricted-{fleet.namespace}"
    documents = rbac.documents([rbac.user_subject(user)])
    role = next(
        document
        for document in documents
        if document["kind"] == "ClusterRole" and document["metadata"]["name"] == "windlass-gateways"
    )
    role["metadata"]["name"] = user
    role["rules"] = [rule for rule in role["rules"] if rule["resources"] != ["pods"]]
    binding = {
        "apiVersion": _CLUSTER_BINDINGS.api_version,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": user,
        },
        "subjects": [rbac.user_subject(user)],
    }
    await fleet.admin.apply(_CLUSTER_ROLES, role, field_manager=MANAGER)
    await fleet.admin.apply(_CLUSTER_BINDINGS, binding, field_manager=MANAGER)

    async def is_allowed() -> bool:
        try:
            await Api(fleet.connection, acting_as=user).list(IGNITION_SYNCS)
        except Forbidden:
            return False
        return True

    await eventually(is_allowed, f"the rights of {user}")
    return await asyncio.to_thread(cluster.user_kubeconfig, user)


@pytest.mark.scenario("G68")
async def test_a_sync_is_deleted_while_agents_and_git_are_down(
    fleet: Fleet, running: RunningController
) -> None:
    """The deletion is published, rights are removed, and no finalizer stays."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    await (await fleet.pod("one")).report()
    await fleet.until("SyncSucceeded")
    fleet.served.server.faults.set(GitFault("hang"))
    try:
        await fleet.admin.delete(IGNITION_SYNCS, "site", fleet.namespace)

        async def is_gone() -> bool:
            return await fleet.find(IGNITION_SYNCS, "site") is None

        await eventually(is_gone, "the deletion of the IgnitionSync", seconds=30)
    finally:
        fleet.served.server.faults.clear()
    assert await fleet.find(ROLE_BINDINGS, "ignition-sync-agent-site") is None
    published = await fleet.published()
    assert not published or published["terminating"] == "true"
    labels = {"cr_namespace": fleet.namespace, "cr": "site"}
    await eventually(running.idle, "the reconcile")
    assert running.value("synced", **labels) is None


async def test_deleted_objects_are_recreated(fleet: Fleet, running: RunningController) -> None:
    """A new status object has a new uid, so its agent reports again."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    pod = await fleet.pod("one")
    await pod.report()
    await fleet.until("SyncSucceeded")
    before = (await pod.metadata()).status_objects["one"]
    for name in (before.name, "ignition-sync-metadata-site", "ignition-sync-status-site"):
        await fleet.admin.delete(CONFIG_MAPS, name, fleet.namespace)
    for gvr in (ROLES, ROLE_BINDINGS):
        await fleet.admin.delete(gvr, "ignition-sync-agent-site", fleet.namespace)

    async def is_recreated() -> bool:
        data = json.loads((await fleet.published()).get("statusObjects", "{}"))
        return bool(data) and data["one"]["uid"] != before.uid

    await eventually(is_recreated, "a new status object")
    for gvr in (ROLES, ROLE_BINDINGS):
        await fleet.wait_for(gvr, "ignition-sync-agent-site")
    await fleet.until("SyncInProgress", message="0 of 1")
    await pod.report()
    await fleet.until("SyncSucceeded")


@pytest.mark.scenario("G2")
async def test_an_invalid_sync_does_not_affect_others(
    fleet: Fleet, running: RunningController
) -> None:
    """Invalid IgnitionSyncs beside a valid one report their problem; the valid one works."""
    await fleet.secret()
    bad_profile = {"mappings": [{"source": "x", "destination": "db/x"}]}
    await fleet.apply(
        fleet.sync("address", git={"repo": "file:///srv/x.git", "ref": "main"}),
        fleet.sync("profiles", profiles={"p": bad_profile}),
        fleet.sync("crashing", siteNumber="boom"),
        fleet.sync(),
    )
    controller = running.controller._controller
    original = controller._reconcile

    async def reconcile(key: Any) -> Any:
        if key.name == "crashing" and key.namespace == fleet.namespace:
            raise RuntimeError("canary-of-a-bug")
        return await original(key)

    controller._reconcile = reconcile
    await fleet.pod("one", cr_name="site")
    row = await fleet.until("InvalidSpec", "Stalled", name="address")
    assert "file URLs" in row["message"]
    row = await fleet.until("ProfilesInvalid", "Stalled", name="profiles")
    assert "profiles.p.mappings[0].destination" in row["message"]
    await fleet.until("CloneSucceeded", "RepoCloned", name="profiles")
    assert not await fleet.published("profiles")
    running.wake(fleet, "crashing")
    row = await fleet.until("InternalError", name="crashing")
    assert "canary" not in json.dumps(await fleet.status("crashing"))
    assert "error id" in row["message"]

    async def crash_events() -> list[Any]:
        running.wake(fleet, "crashing")
        return await fleet.events("InternalError")

    (event,) = await eventually(crash_events, "the event of the third crash")
    assert (event["type"], event["note"]) == ("Warning", row["message"])
    await fleet.until("SyncInProgress", message="0 of 1")
    labels = {"cr_namespace": fleet.namespace, "cr": "address"}
    assert running.value("ready", **labels) == 0
    assert running.value("condition", **labels, type="Stalled", status="True") == 1
    assert running.value("condition", **labels, type="Reconciling", status="True") is None
    assert (running.value("ref_resolve_shared_total") or 0) >= 1
    await fleet.admin.delete(IGNITION_SYNCS, "address", fleet.namespace)

    async def is_gone() -> bool:
        return await fleet.find(IGNITION_SYNCS, "address") is None

    await eventually(is_gone, "the deletion of the invalid one")


async def test_a_pause_is_published_and_stops_polling(
    fleet: Fleet, running: RunningController
) -> None:
    """The commit stays and the status is updated; resuming syncs the new commit."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    pod = await fleet.pod("one")
    await pod.report()
    await fleet.until("SyncSucceeded")
    first = branch_tips(fleet.repository)["main"]
    await fleet.apply(fleet.sync(paused=True))
    await fleet.until("Paused")
    published = await fleet.until_published("paused", "true")
    assert published["pauseReason"]
    listings = fleet.listings()
    second = commit_files(fleet.repository, {"a": "2"})
    await fleet.request()
    running.clock.skipped += 3600
    await fleet.pod("two")
    await fleet.until("SyncInProgress", "AllGatewaysSynced", message="1 of 2")
    assert fleet.listings() == listings
    assert (await fleet.published())["commit"] == first
    assert (await fleet.condition("RepoCloned"))["message"] == first
    await fleet.apply(fleet.sync())
    await fleet.until_published("commit", second)
    assert len(await eventually(lambda: fleet.events("Resumed"), "the event")) == 1


async def test_dry_runs_and_paused_profiles_are_not_waited_for(
    fleet: Fleet, running: RunningController
) -> None:
    """They are listed and not counted."""
    await fleet.secret()
    mappings = [{"source": "services/a/projects", "destination": "projects"}]
    profiles = {
        "dry": {"mappings": mappings, "dryRun": True},
        "held": {"mappings": mappings, "paused": True},
        "real": {"mappings": mappings},
    }
    await fleet.apply(fleet.sync(profiles=profiles))
    dry, _ = await fleet.pod("dry", profile="dry"), await fleet.pod("held", profile="held")
    await dry.report(sync_status="DryRun", reason="")
    await fleet.until(
        "SyncSucceeded", "AllGatewaysSynced", message="0 of 0 gateways synced (1 dry-run, 1"
    )
    assert (await fleet.status())["gatewayCounts"]["paused"] == 1
    counted = await fleet.pod("real", profile="real")
    await fleet.until("SyncInProgress", "AllGatewaysSynced", message="0 of 1")
    await counted.report()
    await fleet.until("SyncSucceeded")
    await fleet.pod("lost", profile="nowhere")
    row = await fleet.until("NoRouting", "Stalled")
    assert "nowhere" in row["message"]


async def test_the_status_is_written_at_most_once_per_interval(
    fleet: Fleet, connection: Connection, tmp_path: Path
) -> None:
    """Reports within one interval are combined into one write."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    pods = [await fleet.pod(f"gw-{number}") for number in range(6)]
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with running_controller(connection, tmp_path, status_interval_seconds=2.0):
        await fleet.until("SyncInProgress", message="0 of 6")
        versions: set[str] = set()
        published = await pods[0].metadata()
        for pod in pods:
            await pod.write(published, pod.synced(published))
            sync = await fleet.find(IGNITION_SYNCS, "site")
            assert sync is not None
            versions.add(sync["metadata"]["resourceVersion"])
        await fleet.until("SyncSucceeded")
        # Two writes may follow each other at once; each further one waits for its interval.
        assert len(versions) <= 2 + (loop.time() - started) / 2.0


async def test_objects_of_users_stay_whatever_their_labels(
    fleet: Fleet, running: RunningController
) -> None:
    """A ConfigMap with our labels only is neither changed nor deleted."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    labels = {
        "ignition-sync.io/cr-name": "site",
        "app.kubernetes.io/managed-by": "ignition-sync-controller",
    }
    for name in ("settings", "ignition-sync-status-mine"):
        metadata = {"name": name, "namespace": fleet.namespace, "labels": labels}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}
        await fleet.admin.create(CONFIG_MAPS, body, field_manager=MANAGER)
    pod = await fleet.pod("one")
    await pod.report()
    await fleet.until("SyncSucceeded")
    await pod.delete()
    await fleet.until("NoGatewaysDiscovered")
    await eventually(running.idle, "the reconcile")
    for name in ("settings", "ignition-sync-status-mine"):
        config_map = await fleet.find(CONFIG_MAPS, name)
        assert config_map is not None
        assert config_map["data"] == {"a": "b"}


async def test_a_controller_without_the_lease_writes_nothing(
    fleet: Fleet, connection: Connection, tmp_path: Path
) -> None:
    """No object is created and none is changed."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    async with running_controller(connection.with_lease_guard(lambda: False), tmp_path) as running:

        async def failed() -> bool:
            return bool(running.value("reconcile_total", result="failed"))

        await eventually(failed, "a reconcile")
        assert not await fleet.published()
        sync = await fleet.find(IGNITION_SYNCS, "site")
        assert sync is not None
        assert "finalizers" not in sync["metadata"]
        assert "status" not in sync


async def test_the_retry_of_an_agent_is_no_recovery(
    fleet: Fleet, running: RunningController
) -> None:
    """Error, progress, the same error: one line; only the sync that succeeds ends it."""
    await fleet.secret()
    failed = {"sync_status": "Error", "reason": "DiskFull", "error_message": "no space left"}
    with structlog.testing.capture_logs() as lines:
        await fleet.apply(fleet.sync())
        pod = await fleet.pod("gw-0")
        for _ in range(2):
            await pod.report(**failed, synced_commit="")
            await fleet.until("SyncFailed")
            await pod.report(sync_status="Syncing", reason="Planning", synced_commit="")
            await fleet.until("SyncInProgress")
        await pod.report()
        await fleet.until("SyncSucceeded")
    found = [line["event"] for line in lines if line["event"] in ("not ready", "recovered")]
    assert found == ["not ready", "recovered"]
