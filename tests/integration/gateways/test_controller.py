"""The controller of IgnitionSyncs with a real API server, a git server and generated rights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.gateways.fleet import (
    CONFIG_MAPS,
    ROLE_BINDINGS,
    ROLES,
    Fleet,
    RunningController,
    running_controller,
)
from tests.support.git.http_server import branch_tips, commit_files
from tests.support.processes.polling import eventually
from windlass.api.kinds.registry import IGNITION_SYNCS
from windlass.kube.connection import Connection

pytestmark = [pytest.mark.cluster]


@pytest.mark.scenario("G3")
async def test_a_missing_api_key_is_named_until_it_exists(
    fleet: Fleet, running: RunningController
) -> None:
    """A public repository resolves without the key; Ready names the missing Secret."""
    await fleet.apply(fleet.sync())
    row = await fleet.until("CloneSucceeded", "RepoCloned")
    assert row["status"] == "True"
    assert row["message"] == branch_tips(fleet.repository)["main"]
    ready = await fleet.until("ApiKeyMissing")
    assert f"{fleet.namespace}/ignition-api" in ready["message"]
    (event,) = await eventually(lambda: fleet.events("ApiKeyMissing"), "the event")
    assert event["type"] == "Warning"
    await fleet.secret(wrong="x")
    running.clock.skipped += 20
    await fleet.request()
    await fleet.until("ApiKeyMissing", message="apiKey")
    await fleet.secret()
    await fleet.until("NoGatewaysDiscovered", seconds=30)


async def test_reporting_gateways_are_counted_until_ready(
    fleet: Fleet, running: RunningController
) -> None:
    """From a pod to Ready: status object, rights, metadata, report, counts."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    await fleet.account("plant")
    first, second = await fleet.pod("one"), await fleet.pod("two", account="plant")
    row = await fleet.until("SyncInProgress", "AllGatewaysSynced", message="0 of 2")
    assert row["status"] == "False"
    await first.report()
    await fleet.until("SyncInProgress", "AllGatewaysSynced", message="1 of 2")
    await second.report()
    ready = await fleet.until("SyncSucceeded")
    assert ready["status"] == "True"
    status = await fleet.status()
    assert status["gatewayCounts"]["synced"] == 2
    assert [row["podName"] for row in status["discoveredGateways"]] == ["one", "two"]
    assert status["lastSyncTime"]
    assert status["lastSyncCommitShort"] == branch_tips(fleet.repository)["main"][:7]
    summary = await fleet.wait_for(CONFIG_MAPS, "ignition-sync-status-site")
    assert json.loads(summary["data"]["one"])["syncStatus"] == "Synced"
    binding = await fleet.wait_for(ROLE_BINDINGS, "ignition-sync-agent-site")
    assert [subject["name"] for subject in binding["subjects"]] == ["default", "plant"]
    assert (await fleet.published())["jitterMs"] == "100"
    labels = {"cr_namespace": fleet.namespace, "cr": "site"}
    assert running.value("synced", **labels) == 2
    assert running.value("gateway_status", **labels, gateway="one", status="Synced") == 1


async def test_agents_have_no_other_rights(fleet: Fleet, running: RunningController) -> None:
    """The rights name their objects: reading another ConfigMap is refused."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    pod = await fleet.pod("one")
    await pod.report()
    role = await fleet.wait_for(ROLES, "ignition-sync-agent-site")
    assert all(rule["resourceNames"] for rule in role["rules"])
    assert {rule["resources"][0] for rule in role["rules"]} == {"configmaps"}
    for name in ("kube-root-ca.crt", "ignition-sync-status-site"):
        with pytest.raises(Exception, match="cannot get"):
            await pod.agent.get(CONFIG_MAPS, name, fleet.namespace)


@pytest.mark.scenario("G60")
async def test_a_new_commit_resets_the_count_of_synced_gateways(
    fleet: Fleet, running: RunningController
) -> None:
    """AllGatewaysSynced is False before any agent reports, and True after the last report."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    pods = [await fleet.pod("one"), await fleet.pod("two")]
    for pod in pods:
        await pod.report()
    await fleet.until("SyncSucceeded")
    first_sync_time = (await fleet.status())["lastSyncTime"]
    commit = commit_files(fleet.repository, {"services/a/projects/y.json": "{}"})
    await fleet.request()
    row = await fleet.until("SyncInProgress", "AllGatewaysSynced", message="0 of 2")
    assert row["status"] == "False"
    assert (await fleet.published())["commit"] == commit
    assert (await fleet.status())["lastSyncTime"] == first_sync_time
    await pods[0].report()
    await fleet.until("SyncInProgress", "AllGatewaysSynced", message="1 of 2")
    await pods[1].report(profile_hash="0" * 64)
    gateway_row = await eventually(lambda: _row(fleet, "two", commit), "the report of two")
    assert gateway_row["syncStatus"] == "Pending"
    assert "routing" in gateway_row["message"]
    await pods[1].report()
    await fleet.until("SyncSucceeded")
    (event,) = await eventually(lambda: fleet.events("RefUpdated"), "the event")
    assert event["metadata"]["annotations"] == {"sync.ignition.io/revision": commit}
    labels = {"cr_namespace": fleet.namespace, "cr": "site"}
    assert running.value("ready", **labels) == 1
    assert running.value("condition", **labels, type="Ready", status="True") == 1
    assert running.value("condition", **labels, type="Ready", status="False") is None


async def _row(fleet: Fleet, pod: str, commit: str) -> dict[str, str]:
    rows = (await fleet.status()).get("discoveredGateways", [])
    match = next((row for row in rows if row["podName"] == pod), {})
    return match if match.get("syncedCommit") == commit else {}


async def test_a_commit_is_published_while_the_status_has_to_wait(
    fleet: Fleet, connection: Connection, tmp_path: Path
) -> None:
    """A request is handled at once; only status writes are rate limited."""
    await fleet.secret()
    async with running_controller(connection, tmp_path, status_interval_seconds=600.0):
        await fleet.apply(fleet.sync())
        await fleet.until_published("commit", branch_tips(fleet.repository)["main"])
        reported_commits = set()
        for number in range(4):
            commit = commit_files(fleet.repository, {"services/a/projects/x.json": f"[{number}]"})
            await fleet.request()
            await fleet.until_published("commit", commit)
            reported_commits.add((await fleet.status()).get("lastSyncCommit"))
        assert len(reported_commits) <= 3, "none, then two writes at once"
        assert commit not in reported_commits


@pytest.mark.scenario("G12")
async def test_an_idle_sync_is_never_written(fleet: Fleet, running: RunningController) -> None:
    """After ten polls every object has the same resourceVersion."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    await (await fleet.pod("one")).report()
    await fleet.until("SyncSucceeded")
    before = await _versions(fleet)
    listings = fleet.listings()
    for polls in range(1, 11):
        running.clock.skipped += 70
        running.wake(fleet)
        await eventually(running.idle, "the end of the reconcile")
        assert fleet.listings() == listings + polls
    assert await _versions(fleet) == before


async def _versions(fleet: Fleet) -> dict[str, str]:
    lists = [
        await fleet.admin.list(gvr, fleet.namespace)
        for gvr in (IGNITION_SYNCS, CONFIG_MAPS, ROLES, ROLE_BINDINGS)
    ]
    return {
        f"{obj['kind']}/{obj['metadata']['name']}": obj["metadata"]["resourceVersion"]
        for objects in lists
        for obj in objects
        # The cluster publishes its CA whenever it gets to it.
        if obj["metadata"]["name"] != "kube-root-ca.crt"
    }
