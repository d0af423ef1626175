"""One branch worker against a real git server: what it writes, and what it leaves alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from tests.support.git.http_server import RunningGitServer, commit_files, files_at, git
from tests.support.processes.polling import eventually
from tests.support.reverser.branch_worker import BASE, MAPS, OURS, WorkerHarness
from tests.support.reverser.branch_worker import config_map_path as _path
from windlass.base.errors import Retryable
from windlass.git import push as pushing
from windlass.git.errors import GitError
from windlass.git.format import failures
from windlass.kube.discovery import ApiTypes
from windlass.objects.names import Identity, Key
from windlass.reverser.gauges import MirrorGauges
from windlass.reverser.publish import folder_claim, publisher
from windlass.reverser.publish import remote_branch as branch_module
from windlass.reverser.publish.file_update import FolderReview, ScopeSnapshot
from windlass.reverser.publish.folder import WriteTarget
from windlass.reverser.publish.worker_pool import WorkerPool
from windlass.reverser.selection.rule_coverage import RuleCoverage
from windlass.reverser.selection.rules import operation_mask
from windlass.reverser.watch.stream_registry import StreamRegistry
from windlass.telemetry.reverser import ReverserMetrics
from windlass_dev.git_server.fault_injection import GitFault


async def test_a_folder_that_was_claimed_during_a_race_is_not_written(
    harness: WorkerHarness,
) -> None:
    """SNP-11: the first pushed claim has the folder; ours keeps pending updates and reports it."""
    folder = await harness.open_folder()
    theirs = folder_claim.render_claim(folder_claim.FolderClaim("other-uid", "ns/dest"))
    commit_files(harness.repository, {f"{BASE}/.windlass-claim": theirs.decode()})
    harness.add_update(folder, "one")
    await harness.wait_until_due()
    await harness.write_group()
    assert folder.error is not None
    assert folder.error.reason == "FolderClaimed"
    assert files_at(harness.repository) == {
        "README.md": "hello\n",
        f"{BASE}/.windlass-claim": theirs.decode(),
    }
    assert [update.path for update in folder.window.updates] == [_path("one")]
    harness.reports.resnapshots.clear()
    commit_files(harness.repository, {f"{BASE}/.windlass-claim": None})
    folder.retry_at = 0.0
    await harness.write_group()
    assert harness.reports.resnapshots == [harness.target.key]
    assert _path("one") in files_at(harness.repository)


async def test_a_destination_detached_during_a_race_is_not_written(
    harness: WorkerHarness,
) -> None:
    """REF-5: a grant that is withdrawn while we retry ends the retrying."""
    folder = await harness.open_folder()
    harness.add_update(folder, "one")
    taken = [(folder, folder.take())]
    harness.worker.detach(harness.target.key)
    harness.worker._drop_unwritable(taken)
    assert taken == []


async def test_an_occupied_path_stays_foreign(harness: WorkerHarness) -> None:
    """SNP-10: a foreign file is neither replaced nor counted nor removed."""
    commit_files(harness.repository, {_path("one"): "kind: Something\n"})
    folder = await harness.open_folder()
    harness.add_update(folder, "one")
    harness.add_update(folder, "two")
    await harness.wait_until_due()
    await harness.write_group()
    assert files_at(harness.repository)[_path("one")] == "kind: Something\n"
    assert list(folder.refused) == [_path("one")]
    assert _path("one") not in folder.own_paths
    assert folder.objects == 1
    assert harness.reports.skipped == [("one", "PathOccupied")]


@pytest.mark.scenario("A27")
async def test_a_new_destination_gets_time_for_its_rules(harness: WorkerHarness) -> None:
    """SNP-7: older files stay until that time is over; files of ours go at once."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}\n  namespace: ns\n"
    ours = folder_claim.render_claim(folder_claim.FolderClaim(OURS, "ns/dest"))
    files = {f"{BASE}/.windlass-claim": ours.decode(), _path("old"): text.format("old")}
    commit_files(harness.repository, files)
    folder = await harness.open_folder()
    harness.add_update(folder, "new", text.format("new"))
    await harness.wait_until_due()
    await harness.write_group()
    harness.reports.coverage = RuleCoverage((), ApiTypes(()), grace_expired=False)
    for kept in ({_path("old")}, set()):
        harness.worker.add_snapshot(folder, FolderReview())
        await harness.wait_until_due()
        await harness.write_group()
        assert {path for path in files_at(harness.repository) if path.endswith(".yaml")} == kept
        harness.reports.coverage = replace(harness.reports.coverage, grace_expired=True)
    assert all(one.startswith("[SYNC] 1 object") for one in harness.subjects()[:2])


async def test_only_events_wait_for_the_commit_window(harness: WorkerHarness) -> None:
    """What a snapshot or a review finds is written at once; a change waits for its window.

    SNP-7: it does not wait because a change came before it or after it.
    """
    folder = await harness.open_folder(window_seconds=300.0)
    harness.add_update(folder, "one")
    assert harness.worker._due_at(harness.group) == folder.window.opened + 300.0
    harness.worker.add_snapshot(folder, FolderReview())
    await harness.wait_until_due()
    harness.add_update(folder, "two")
    await harness.wait_until_due()


async def test_a_file_where_the_folder_should_be_stays(harness: WorkerHarness) -> None:
    """SNP-10: a file in place of a parent directory refuses the objects and breaks nothing."""
    commit_files(harness.repository, {"clusters": "a file\n"})
    folder = await harness.open_folder()
    harness.add_update(folder, "one")
    await harness.wait_until_due()
    await harness.write_group()
    assert harness.group.error is None
    assert list(folder.refused) == [_path("one")]
    assert files_at(harness.repository) == {"README.md": "hello\n", "clusters": "a file\n"}


async def test_no_window_means_a_commit_for_each_change(harness: WorkerHarness) -> None:
    """With commitWindow 0s changes that gather while we are busy do not share a commit."""
    folder = await harness.open_folder(window_seconds=0.0)
    for text in ("a: 1\n", "a: 2\n"):
        harness.add_update(folder, "one", text)
    harness.add_update(folder, "two")
    await harness.write_group()
    one, two = (f"v1/configmaps/{name} by user/alice" for name in ("one", "two"))
    assert harness.subjects()[:3] == [f"[CREATE] {two}", f"[UPDATE] {one}", f"[CREATE] {one}"]


async def test_the_lag_counts_a_push_that_hangs(
    harness: WorkerHarness, git_host: RunningGitServer
) -> None:
    """A change that is on its way is not pushed yet; afterwards there is no lag."""
    registry = CollectorRegistry()
    workers = cast("WorkerPool", [harness.worker])
    gauges = MirrorGauges(ReverserMetrics(registry), StreamRegistry(), workers, {}, harness.clock)

    async def lag() -> float | None:
        gauges.sample()
        return registry.get_sample_value("windlass_mirror_watch_lag_seconds")

    async def is_pushing() -> bool:
        return harness.worker.is_active and not folder.window

    folder = await harness.open_folder()
    harness.add_update(folder, "one")
    await harness.wait_until_due()
    git_host.server.faults.set(GitFault("hang", service="receive-pack"))
    try:
        push = asyncio.create_task(harness.write_group())
        await eventually(is_pushing, "the window closed")
        await eventually(lag, "a lag")
    finally:
        git_host.server.faults.clear()
        push.cancel()
        await asyncio.gather(push, return_exceptions=True)
    await harness.write_group()
    assert await lag() == 0.0


async def test_the_first_pending_update_is_reported(harness: WorkerHarness) -> None:
    """The status of a destination must follow also if no push ends; later updates add nothing."""
    folder = await harness.open_folder()
    before = len(harness.reports.changed)
    harness.add_update(folder, "one")
    harness.add_update(folder, "two")
    assert harness.reports.changed[before:] == [folder.target.key]


async def test_a_request_closes_the_window(harness: WorkerHarness) -> None:
    """CMT-1: a requested reconcile does not wait for the end of a long window."""
    folder = await harness.open_folder(window_seconds=300.0)
    harness.add_update(folder, "one")
    harness.worker.branch_observed(harness.target.key, harness.branch.expected, flush=False)
    assert not harness.worker._is_due(harness.group)
    harness.worker.branch_observed(harness.target.key, harness.branch.expected, flush=True)
    assert harness.worker._is_due(harness.group)
    await harness.write_group()
    assert _path("one") in files_at(harness.repository)


async def test_what_is_masked_is_counted_without_a_push(harness: WorkerHarness) -> None:
    """P12: a window in which nothing may be written still counts the reason."""
    folder = await harness.open_folder()
    before = harness.subjects()
    harness.add_update(folder, "one", operations="DELETE")
    await harness.wait_until_due()
    await harness.write_group()
    assert harness.reports.skipped == [("one", "OperationMasked")]
    assert harness.subjects() == before
    assert folder.pending == 0


async def test_dropped_objects_are_listed_again_only_for_a_remote_that_answers(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIT-10: while the remote is unavailable paths wait and nothing is listed again."""
    folder = await harness.open_folder()
    harness.reports.resnapshots.clear()
    harness.add_update(folder, "one")
    folder.drop_updates()

    async def unavailable(target: WriteTarget) -> str:
        raise Retryable("GitUnavailable", "away")

    with monkeypatch.context() as patch:
        patch.setattr(harness.branch, "refresh", unavailable)
        await harness.write_group()
    assert harness.reports.resnapshots == []
    assert (folder.pending, folder.is_idle) == (1, False)
    await harness.write_group()
    assert harness.reports.resnapshots == [harness.target.key]
    assert (folder.pending, folder.is_idle) == (0, True)
    harness.add_update(folder, "one", live=False)
    await harness.wait_until_due()
    await harness.write_group()
    assert _path("one") in files_at(harness.repository)


async def test_a_long_outage_costs_no_more_memory_than_the_limit(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIT-10: above the limit a group that cannot push keeps the paths of its updates alone."""
    folder = await harness.open_folder()

    async def unavailable(target: WriteTarget) -> str:
        raise Retryable("GitUnavailable", "away")

    with monkeypatch.context() as patch:
        patch.setattr(harness.branch, "refresh", unavailable)
        harness.worker._branch.may_have_moved = True
        await harness.write_group()
    assert harness.group.error is not None
    for name in ("one", "two", "three"):
        harness.add_update(folder, name, "a" * (400 << 10))
    assert folder.window.size == 0
    assert folder.pending == 3


async def test_a_store_full_of_old_objects_is_fetched_anew(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIT-3: what gathers with the commits goes while nothing waits, and writing goes on."""
    folder = await harness.open_folder()
    harness.add_update(folder, "one")
    await harness.wait_until_due()
    await harness.write_group()
    monkeypatch.setattr(branch_module, "_CLUTTER_LIMIT", -1)
    before = harness.branch.store
    await harness.write_group()
    monkeypatch.undo()
    assert harness.branch.store is not before
    assert harness.branch.is_known
    harness.add_update(folder, "two")
    await harness.wait_until_due()
    await harness.write_group()
    assert {_path("one"), _path("two")} <= files_at(harness.repository).keys()
    assert len(harness.subjects()) == 3


async def test_a_store_that_could_not_be_fetched_anew_is_fetched_later(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report of an unavailable remote ends when it answers, without any change."""
    await harness.open_folder()

    async def unavailable(target: WriteTarget) -> str:
        raise Retryable("GitUnavailable", "away")

    with monkeypatch.context() as patch:
        patch.setattr(branch_module, "_CLUTTER_LIMIT", -1)
        patch.setattr(harness.branch, "refresh", unavailable)
        await harness.write_group()
    assert harness.group.error is not None
    await harness.wait_until_due()
    await harness.write_group()
    assert harness.group.error is None
    assert harness.worker._due_at(harness.group) == float("inf")


async def test_authors_are_proven_while_a_push_takes_long(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ATT-7: a change that arrives during a push is judged before its record can expire."""
    monkeypatch.setattr(publisher, "SETTLE_SECONDS", 0.05)
    folder = await harness.open_folder(window_seconds=0.0)
    send = pushing._send

    async def is_judged() -> bool:
        return bool(folder.window.verdicts)

    async def send_slowly(attempt: Any) -> None:
        harness.add_update(folder, "two")
        await eventually(is_judged, "a verdict on the change that waits")
        await send(attempt)

    monkeypatch.setattr(pushing, "_send", send_slowly)
    harness.add_update(folder, "one")
    await harness.write_group()
    assert harness.group.error is None


RACES = (
    "[rejected] (stale info)",
    "[rejected] (fetch first)",
    "[remote rejected] (cannot lock ref 'refs/heads/main': is at 1 but expected 2)",
    "[remote rejected] (incorrect old value provided)",
    "[remote rejected] (failed to update ref)",
    "[remote rejected] (pre-receive hook declined)",
)


@pytest.mark.scenario("A74")
async def test_a_lost_race_is_recognized_by_the_ref_alone(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIT-7: the branch moved, so we plan on the new tip; the server's message does not matter."""
    folder = await harness.open_folder()
    for number, message in enumerate(RACES):
        messages = [message]

        async def refused(
            attempt: Any,
            messages: list[str] = messages,
            number: int = number,
            send: Any = pushing._send,
        ) -> None:
            if not messages:
                await send(attempt)
                return
            commit_files(harness.repository, {f"theirs-{number}": "1\n"})
            line = f"!\tmain:refs/heads/main\t{messages.pop()}\n"
            raise GitError(failures.failure_reason("", line), "refused", stdout=line.encode())

        with monkeypatch.context() as patch:
            patch.setattr(pushing, "_send", refused)
            harness.add_update(folder, f"ours-{number}")
            await harness.wait_until_due()
            await harness.write_group()
        assert harness.group.error is None, message
    files = files_at(harness.repository)
    for number in range(len(RACES)):
        assert {f"theirs-{number}", _path(f"ours-{number}")} <= files.keys()
    assert git(harness.repository, "rev-list", "--merges", "main") == ""


async def test_a_destination_detached_before_its_push_is_no_error(
    harness: WorkerHarness,
) -> None:
    """A destination that is detached while others write is not written, and nothing fails."""
    harness.attach()
    group, before = harness.group, harness.subjects()
    async with harness.worker._repository_gate:
        serving = asyncio.create_task(harness.worker._write_group(group))
        await asyncio.sleep(0)
        harness.worker.detach(harness.target.key)
    await serving
    assert group.error is None
    assert harness.subjects() == before


@pytest.mark.parametrize("inner", [BASE, f"{BASE}/deeper"])
async def test_of_two_namespaces_the_first_push_has_the_folder(
    harness: WorkerHarness, inner: str
) -> None:
    """GIT-2: both are open until one has its claim in Git; the other writes nothing."""
    idle = await harness.open_folder(
        key=Key("evil", "older"), created="2020-01-01", base_folder=inner
    )
    mine = await harness.open_folder(created="2026-01-01")
    assert idle.error is None
    assert mine.error is None
    harness.add_update(mine, "one")
    await harness.wait_until_due()
    await harness.write_group()
    assert _path("one") in files_at(harness.repository)
    assert idle.error is not None
    assert idle.error.reason == "OverlappingBaseFolder"

    assert "ns/dest" not in idle.error.message
    before = files_at(harness.repository)
    harness.add_update(idle, "two")
    await harness.write_group()
    assert files_at(harness.repository) == before


async def test_a_refused_folder_stays_refused_while_it_is_tried_again(
    harness: WorkerHarness,
) -> None:
    """A destination that comes or goes makes others try; neither status nor log changes for it."""
    holder = await harness.open_folder()
    harness.add_update(holder, "one")
    await harness.wait_until_due()
    await harness.write_group()
    with capture_logs() as logs:
        below = await harness.open_folder(key=Key("ns", "below"), base_folder=f"{BASE}/below")
        assert below.error is not None
        harness.attach(key=Key("ns", "beside"), base_folder="beside")
        assert below.error is not None
        await harness.write_group()
    assert below.error is not None
    assert below.error.reason == "OverlappingBaseFolder"
    assert [(row["destination"], row["reason"]) for row in logs] == [
        ("ns/below", "OverlappingBaseFolder")
    ]


async def test_two_namespaces_that_write_at_once_never_share_a_folder(
    harness: WorkerHarness,
) -> None:
    """GIT-2: both have something to write in the same push; one claims, the other is refused."""
    one = await harness.open_folder(key=Key("evil", "older"), created="2020-01-01")
    other = await harness.open_folder(created="2026-01-01")
    harness.add_update(one, "one")
    harness.add_update(other, "two")
    await harness.wait_until_due()
    await harness.write_group()
    await harness.write_group()
    assert [folder.error is None for folder in (one, other)] == [True, False]
    files = files_at(harness.repository)
    assert "destination: evil/older" in files[f"{BASE}/.windlass-claim"]
    assert _path("two") not in files
    assert len(harness.subjects()) == 2


@pytest.mark.parametrize("live", [True, False])
async def test_no_commit_is_larger_than_its_ceilings(harness: WorkerHarness, live: bool) -> None:
    """--git-batch-max-files and -bytes-mib hold for each commit, also of a snapshot."""
    folder = await harness.open_folder(window_seconds=300.0)
    for number in range(450):
        harness.add_update(folder, f"small-{number}", live=live)
    for number in range(3):
        harness.add_update(folder, f"large-{number}", "a: " + "x" * 700_000, live=live)
    folder.window.flush_requested = True
    await harness.write_group()
    sizes = [
        len(
            git(
                harness.repository, "diff-tree", "-r", "--name-only", "--no-commit-id", commit
            ).split()
        )
        for commit in git(harness.repository, "rev-list", "--reverse", "main", "^main~5").split()
    ]
    # The first one brings the claim, which is no object, and the first large file fits.
    assert sizes == [201, 200, 51, 1, 1]
    assert folder.pending == 0
    assert len(harness.reports.pushed) == 1


async def test_a_snapshot_without_changes_does_not_wait_for_a_long_window(
    harness: WorkerHarness,
) -> None:
    """2.2: a long commitWindow gathers commits; it does not keep Synced from being True."""
    folder = await harness.open_folder(window_seconds=300.0)
    harness.worker.add_snapshot(
        folder, ScopeSnapshot(MAPS, "ConfigMap", "ns", frozenset(), False, operation_mask(("*",)))
    )
    assert not folder.is_idle
    await harness.wait_until_due()
    await harness.write_group()
    assert folder.is_idle


async def test_an_object_recreated_after_its_snapshot_keeps_its_file(
    harness: WorkerHarness,
) -> None:
    """P2: a snapshot proves nothing about what was observed after it, in the same window."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}\n  namespace: ns\n"
    folder = await harness.open_folder()
    for name in ("one", "two"):
        harness.add_update(folder, name, text.format(name))
    await harness.wait_until_due()
    await harness.write_group()
    harness.add_update(folder, "two", text.format("two") + "data: {}\n")
    mask = operation_mask(("*",))
    missing = (Identity(MAPS, "ns", "one"), Identity(MAPS, "ns", "two"))
    harness.worker.add_snapshot(
        folder, ScopeSnapshot(MAPS, "ConfigMap", "ns", frozenset(), False, mask, missing)
    )
    harness.add_update(folder, "one", text.format("one") + "data: {}\n")
    await harness.wait_until_due()
    await harness.write_group()
    assert _path("one") in files_at(harness.repository), "it was observed after the snapshot"
    assert _path("two") not in files_at(harness.repository), "it was observed before it"
