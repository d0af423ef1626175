"""Refs of IgnitionSyncs: tags, ambiguity, moved tags, and remotes that fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import structlog
from prometheus_client import generate_latest

from tests.support.gateways.fleet import (
    API_KEY,
    CONFIG_MAPS,
    EVENTS,
    ROLE_BINDINGS,
    ROLES,
    Fleet,
    RunningController,
    running_controller,
)
from tests.support.git.http_server import PASSWORD, RunningGitServer, branch_tips, commit_files, git
from tests.support.processes.polling import eventually
from windlass.api.kinds.registry import IGNITION_SYNCS
from windlass.kube.connection import Connection
from windlass_dev.git_server.fault_injection import GitFault

pytestmark = [pytest.mark.cluster]

WRITTEN_TYPES = (IGNITION_SYNCS, CONFIG_MAPS, ROLES, ROLE_BINDINGS)
"""All types that the controller writes."""


@pytest.mark.scenario("G4")
async def test_tags_of_one_commit_publish_the_same_commit(
    fleet: Fleet, running: RunningController
) -> None:
    """A lightweight, an annotated and a nested tag; switching between them causes no event."""
    commit = branch_tips(fleet.repository)["main"]
    git(fleet.repository, "tag", "light", commit)
    git(fleet.repository, "tag", "-a", "-m", "x", "annotated", commit)
    git(fleet.repository, "tag", "-a", "-m", "x", "nested", "annotated")
    await fleet.secret()
    for ref in ("light", "annotated", "nested"):
        repo = fleet.served.server.url(fleet.namespace)
        await fleet.apply(fleet.sync(git={"repo": repo, "ref": ref}))
        published = await fleet.until_published("ref", ref)
        assert published["commit"] == commit
    assert not await fleet.events("RefUpdated")
    assert not await fleet.events("TagMoved")


@pytest.mark.scenario("G5")
async def test_a_tag_wins_over_a_branch_of_its_name(
    fleet: Fleet, running: RunningController
) -> None:
    """One event names both; the full name selects the branch."""
    first = branch_tips(fleet.repository)["main"]
    git(fleet.repository, "tag", "x", first)
    second = commit_files(fleet.repository, {"a": "2"}, branch="x")
    assert first != second
    repo = fleet.served.server.url(fleet.namespace)
    await fleet.apply(fleet.sync(git={"repo": repo, "ref": "x"}))
    await fleet.until_published("commit", first)
    (event,) = await eventually(lambda: fleet.events("AmbiguousRef"), "the event")
    assert first[:12] in event["note"]
    assert second[:12] in event["note"]
    await fleet.request()
    await eventually(running.idle, "the reconcile")
    assert len(await fleet.events("AmbiguousRef")) == 1
    await fleet.apply(fleet.sync(git={"repo": repo, "ref": "refs/heads/x"}))
    await fleet.until_published("commit", second)


@pytest.mark.scenario("G11")
async def test_a_moved_tag_is_reported_and_followed(
    fleet: Fleet, running: RunningController
) -> None:
    """TagMoved names both commits; the new one is published."""
    first = branch_tips(fleet.repository)["main"]
    git(fleet.repository, "tag", "v1", first)
    repo = fleet.served.server.url(fleet.namespace)
    await fleet.apply(fleet.sync(git={"repo": repo, "ref": "v1"}))
    await fleet.until_published("commit", first)
    second = commit_files(fleet.repository, {"a": "2"})
    git(fleet.repository, "tag", "-f", "v1", second)
    await fleet.request()
    await fleet.until_published("commit", second)
    (event,) = await eventually(lambda: fleet.events("TagMoved"), "the event")
    assert event["type"] == "Warning"
    assert first[:12] in event["note"]
    assert second[:12] in event["note"]


@pytest.mark.scenario("G10")
async def test_without_polling_the_remote_is_not_asked(
    fleet: Fleet, running: RunningController
) -> None:
    """Only by a request or a changed spec; never because time passes."""
    await fleet.secret()
    await fleet.apply(fleet.sync(polling={"enabled": False}))
    first = branch_tips(fleet.repository)["main"]
    await fleet.until_published("commit", first)
    await fleet.until("NoGatewaysDiscovered")
    await eventually(running.idle, "the reconcile")
    listings = fleet.listings()
    second = commit_files(fleet.repository, {"a": "2"})
    for _ in range(5):
        running.clock.skipped += 3600
        running.wake(fleet)
        await eventually(running.idle, "the reconcile")
    assert fleet.listings() == listings
    assert (await fleet.published())["commit"] == first
    await fleet.request()
    await fleet.until_published("commit", second)
    assert fleet.listings() == listings + 1
    third = commit_files(fleet.repository, {"a": "3"}, branch="other")
    repo = fleet.served.server.url(fleet.namespace)
    await fleet.apply(fleet.sync(git={"repo": repo, "ref": "other"}, polling={"enabled": False}))
    await fleet.until_published("commit", third)


@pytest.mark.scenario("G6")
async def test_commit_ids_are_verified_and_short_ones_refused(
    fleet: Fleet, running: RunningController
) -> None:
    """An id that is no tip is resolved, a random one is not, a short one gets a hint."""
    old = branch_tips(fleet.repository)["main"]
    commit_files(fleet.repository, {"a": "2"})
    repo = fleet.served.server.url(fleet.namespace)
    await fleet.apply(fleet.sync(git={"repo": repo, "ref": old}))
    await fleet.until_published("commit", old)
    await fleet.apply(fleet.sync(git={"repo": repo, "ref": "1" * 40}))
    await fleet.until("CommitUnreachable", "Stalled")
    await fleet.apply(fleet.sync(git={"repo": repo, "ref": old[:7]}))
    row = await fleet.until("RefNotFound", "Stalled")
    assert "full SHA" in row["message"]
    assert (await fleet.published())["commit"] == old


async def test_an_unknown_ref_keeps_the_published_commit(
    fleet: Fleet, running: RunningController
) -> None:
    """The cause is reported; agents keep the published commit and repository."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    pod = await fleet.pod("one")
    await pod.report()
    await fleet.until("SyncSucceeded")
    before = await fleet.published()
    repo = fleet.served.server.url(fleet.namespace)
    await fleet.apply(fleet.sync(git={"repo": repo, "ref": "nowhere"}))
    ready = await fleet.until("CloneFailed", message="RefNotFound")
    assert ready["status"] == "False"
    row = await fleet.condition("RepoCloned")
    assert (row["status"], row["reason"]) == ("False", "CloneFailed")
    status = await fleet.status()
    assert status["repoCloneStatus"] == "Error"
    assert status["source"]["cause"] == "RefNotFound"
    assert status["lastSyncCommit"] == before["commit"]
    assert status["gatewayCounts"]["synced"] == 1
    assert await fleet.published() == before
    await fleet.apply(fleet.sync())
    await fleet.until("SyncSucceeded")


async def test_a_failure_is_logged_once_per_change(
    fleet: Fleet, running: RunningController
) -> None:
    """Equal failures log one line; another cause, and recovery, log one more each."""
    await fleet.secret()
    repo = fleet.served.server.url(fleet.namespace)
    with structlog.testing.capture_logs() as lines:
        await fleet.apply(fleet.sync(git={"repo": repo, "ref": "nowhere"}))
        await fleet.until("CloneFailed", message="RefNotFound")
        for _ in range(3):
            await fleet.request()
            await eventually(running.idle, "the reconcile")
        await fleet.apply(fleet.sync(git={"repo": f"{repo}-gone", "ref": "main"}))
        await fleet.until("CloneFailed", message="RepoNotFound")
        await fleet.apply(fleet.sync())
        # Before a first commit a slow answer is reported as NoGatewaysDiscovered too.
        await fleet.until("CloneSucceeded", "RepoCloned")
        await fleet.until("NoGatewaysDiscovered")
    logged = [line for line in lines if line["event"] in ("not ready", "recovered")]
    assert [line["log_level"] for line in logged] == ["warning", "warning", "info"]
    assert "RefNotFound" in logged[0]["cause"]
    assert "RepoNotFound" in logged[1]["cause"]


async def test_a_pause_keeps_the_status_of_the_repository(
    fleet: Fleet, running: RunningController
) -> None:
    """The condition and both fields stay as they were."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    await fleet.until("NoGatewaysDiscovered")
    repo = fleet.served.server.url(fleet.namespace)
    unknown_ref = {"repo": repo, "ref": "nowhere"}
    await fleet.apply(fleet.sync(git=unknown_ref))
    await fleet.until("CloneFailed", message="RefNotFound")
    await fleet.apply(fleet.sync(git=unknown_ref, paused=True))
    await fleet.until("Paused")
    status = await fleet.status()
    assert (await fleet.condition("RepoCloned"))["status"] == "False"
    assert status["repoCloneStatus"] == "Error"
    assert status["source"]["cause"] == "RefNotFound"


async def test_a_commit_that_agents_cannot_fetch_is_resolved_again(
    fleet: Fleet, running: RunningController
) -> None:
    """The branch was rewritten and polling is off: the agent's report suffices (SRC-4)."""
    await fleet.secret()
    await fleet.apply(fleet.sync(polling={"enabled": False}))
    pod = await fleet.pod("one")
    published = await pod.metadata()
    listings = fleet.listings()
    new = commit_files(fleet.repository, {"a": "2"})
    failed = {
        "sync_status": "Pending",
        "reason": "WaitingForGit",
        "error_message": "CommitUnreachable: the server does not give it",
        "synced_commit": "",
    }
    await pod.write(published, pod.synced(published, **failed))
    await fleet.until_published("commit", new)
    await eventually(running.idle, "the reconcile")
    assert listings < fleet.listings() <= listings + 2


async def test_a_remote_that_is_down_is_polled_with_backoff(
    fleet: Fleet, running: RunningController
) -> None:
    """The failure is reported, reconciles in between send no request, and it recovers."""
    await fleet.secret()
    await fleet.apply(fleet.sync())
    await fleet.until_published("commit", branch_tips(fleet.repository)["main"])
    await fleet.until("NoGatewaysDiscovered")
    second = commit_files(fleet.repository, {"a": "2"})
    fleet.served.server.faults.set(GitFault("error"))
    try:
        await fleet.request()
        await fleet.until("CloneFailed")
        assert (await fleet.condition("Reconciling"))["status"] == "True"
        running.clock.hold()
        running.clock.skipped += 30
        running.wake(fleet)
        await eventually(running.idle, "a second failure, whose retry is at least 8 s away")
        listings = fleet.listings()
        for _ in range(5):
            running.clock.skipped += 1
            running.wake(fleet)
            await eventually(running.idle, "the reconcile")
        assert fleet.listings() == listings
    finally:
        fleet.served.server.faults.clear()
    running.clock.resume()
    running.clock.skipped += 30
    running.wake(fleet)
    await fleet.until_published("commit", second)
    await fleet.until("NoGatewaysDiscovered")


@pytest.mark.scenario("G82")
async def test_wrong_credentials_are_reported_until_corrected(
    fleet: Fleet,
    running: RunningController,
    closed_git_host: RunningGitServer,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """No password is shown; a missing key is named; a corrected Secret suffices."""
    repository = closed_git_host.create(fleet.namespace, {"a": "1"})
    source = {
        "repo": closed_git_host.server.url(fleet.namespace),
        "ref": "main",
        "auth": {"token": {"secretRef": {"name": "git-auth"}}},
    }
    await fleet.secret()
    await fleet.apply(fleet.sync(git=source))
    await fleet.until("CloneFailed", message="SecretMissing")
    await fleet.secret("git-auth", other="x")
    await fleet.request()
    row = await fleet.until("CloneFailed", "RepoCloned", message="SecretKeyMissing")
    assert "found: other" in row["message"]
    wrong = "wrong-canary-8841"
    await fleet.secret("git-auth", username="git", token=wrong)
    await fleet.request()
    await fleet.until("AuthFailed", "Stalled", message="check the user, token or key in the Secret")
    assert wrong not in json.dumps(await fleet.status())
    await fleet.secret("git-auth", username="git", token=PASSWORD)
    await fleet.request()
    published = await fleet.until_published("commit", branch_tips(repository)["main"])
    assert published["authType"] == "token"
    await fleet.until("InsecureTransport", "SourceTrusted")
    objects = [await fleet.admin.list(gvr, fleet.namespace) for gvr in (*WRITTEN_TYPES, EVENTS)]
    outputs = (json.dumps(objects), generate_latest(running.registry).decode(), *capfd.readouterr())
    for secret in (wrong, PASSWORD, API_KEY):
        assert not [text for text in outputs if secret in text]


async def test_a_restart_writes_nothing(
    fleet: Fleet, connection: Connection, tmp_path: Path
) -> None:
    """A second controller polls once and changes nothing."""
    await fleet.secret()
    async with running_controller(connection, tmp_path / "first") as first:
        await fleet.apply(fleet.sync())
        await (await fleet.pod("one")).report()
        await fleet.until("SyncSucceeded")
        await eventually(first.idle, "the reconcile")
    before = await fleet.status()
    listings = fleet.listings()
    async with running_controller(connection, tmp_path / "second") as second:

        async def is_polled() -> bool:
            return fleet.listings() > listings and await second.idle()

        await eventually(is_polled, "the first poll")
    assert await fleet.status() == before
    assert fleet.listings() == listings + 1
