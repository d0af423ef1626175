"""A foreign writer pushes to the same branch all the time: pending changes are still pushed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.git.http_server import RunningGitServer, commit_files, files_at, git
from tests.support.reverser.branch_worker import BASE, MAPS, WorkerHarness, config_map_path
from windlass.git import push as pushing
from windlass.git.errors import GitError
from windlass.objects.names import Identity, Key
from windlass.reverser.attribution.author import Actor
from windlass.reverser.attribution.record_join import AuthorVerdict, Observation
from windlass.reverser.publish import folder_claim
from windlass.reverser.publish.file_update import ScopeSnapshot
from windlass.reverser.publish.folder import Folder
from windlass.reverser.selection.rules import operation_mask
from windlass_dev.git_server.fault_injection import GitFault

PEOPLE = ("alice", "bob", "carol", "dave")
_MANY_RACES = 100


@pytest.fixture
def several_authors(harness: WorkerHarness) -> WorkerHarness:
    """A worker whose changes have several authors in turn."""

    def judge(observation: Observation) -> AuthorVerdict:
        return AuthorVerdict(
            "exact", Actor(PEOPLE[int(observation.uid.split("-")[1]) % len(PEOPLE)])
        )

    harness.worker._publisher.judge = judge
    return harness


def _backlog(harness: WorkerHarness, folder: Folder, size: int) -> list[str]:
    """That many changes, each a commit of its own; their subjects in order."""
    for number in range(size):
        harness.add_update(folder, f"o-{number}", f"a: {number}\n")
    return [
        f"[CREATE] v1/configmaps/o-{number} by user/{PEOPLE[number % len(PEOPLE)]}"
        for number in range(size)
    ]


def _pushed_commits(harness: WorkerHarness) -> list[str]:
    """Authors and subjects of what we pushed, the oldest first."""
    rows = git(harness.repository, "log", "--reverse", "--format=%an|%s", "main").splitlines()
    return [row for row in rows if "|[" in row]


def _push_during(
    harness: WorkerHarness, patch: pytest.MonkeyPatch, longest: int, theirs: str = "theirs"
) -> Iterator[int]:
    """A foreign push during every push of more than `longest` commits; counts them.

    It gives up after so many that pushes do not get shorter.
    """
    send, lost_races, numbers = pushing._send, count(1), count(1)

    async def send_after_foreign_push(attempt: Any) -> None:
        commits = git(attempt.store.directory, "rev-list", "--count", attempt.commit,
                      f"^{attempt.expected}")  # fmt: skip
        if int(commits) > longest:
            number = next(numbers)
            assert number < _MANY_RACES, f"still {commits.strip()} commits in one push"
            commit_files(harness.repository, {theirs: f"{number}\n"})
            next(lost_races)
        await send(attempt)

    patch.setattr(pushing, "_send", send_after_foreign_push)
    return lost_races


@pytest.mark.parametrize("theirs", ["theirs", f"{BASE}/README.md"])
async def test_a_backlog_is_pushed_beside_a_faster_writer(
    several_authors: WorkerHarness, monkeypatch: pytest.MonkeyPatch, theirs: str
) -> None:
    """GIT-7: long pushes lose every race, so pushes get shorter; nothing is lost or repeated.

    That holds beside our folder and within it, where each lost race needs a new plan.
    """
    folder = await several_authors.open_folder(window_seconds=0.0)
    subjects = _backlog(several_authors, folder, 60)
    _push_during(several_authors, monkeypatch, longest=8, theirs=theirs)
    with capture_logs() as logs:
        await several_authors.write_group()
    assert several_authors.group.error is None
    assert [row.partition("|")[2] for row in _pushed_commits(several_authors)] == subjects
    assert {row.partition("|")[0] for row in _pushed_commits(several_authors)} == set(PEOPLE)
    assert git(several_authors.repository, "rev-list", "--merges", "main") == ""
    assert several_authors.reports.races >= 3
    reasons = [row["reason"] for row in logs if row["event"] == "push failed; retrying"]
    assert reasons == ["PushRaced"]
    git(several_authors.repository, "fsck", "--strict")
    refs = git(several_authors.repository, "for-each-ref", "--format=%(refname)")
    assert refs.split() == ["refs/heads/main"]


@pytest.mark.parametrize("theirs", ["theirs", "beside/note"])
async def test_a_race_outside_of_our_folder_needs_no_new_plan(
    several_authors: WorkerHarness, monkeypatch: pytest.MonkeyPatch, theirs: str
) -> None:
    """Where our folder is unchanged on the new tip only commits and the trees above it are new.

    The folder of another destination, which has nothing to write, may differ.
    """
    folder = await several_authors.open_folder(window_seconds=0.0)
    beside = await several_authors.open_folder(key=Key("ns", "beside"), base_folder="beside")
    _backlog(several_authors, folder, 20)
    planned, plan = count(), several_authors.worker._publisher.plan

    async def counted_plan(*planning: Any) -> Any:
        next(planned)
        return await plan(*planning)

    monkeypatch.setattr(several_authors.worker._publisher, "plan", counted_plan)
    _push_during(several_authors, monkeypatch, longest=5, theirs=theirs)
    await several_authors.write_group()
    assert len(_pushed_commits(several_authors)) == 20
    assert next(planned) == 1
    assert beside.index.keys() == {theirs} & {"beside/note"}


async def test_a_backlog_is_pushed_beside_a_writer_faster_than_a_long_plan(
    several_authors: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIT-7: in a large folder a plan takes longer than a push: plans get shorter with pushes."""
    folder = await several_authors.open_folder(window_seconds=0.0)
    subjects = _backlog(several_authors, folder, 60)
    numbers, plan = count(1), several_authors.worker._publisher.plan

    async def plan_during_foreign_pushes(*planning: Any) -> Any:
        planned = await plan(*planning)
        if len(planned.steps) > 8:
            number = next(numbers)
            assert number < _MANY_RACES, f"still {len(planned.steps)} commits in one plan"
            commit_files(several_authors.repository, {f"{BASE}/README.md": f"{number}\n"})
        return planned

    monkeypatch.setattr(several_authors.worker._publisher, "plan", plan_during_foreign_pushes)
    await several_authors.write_group()
    assert several_authors.group.error is None
    assert several_authors.group.unacknowledged_commits == 0
    assert folder.pending == 0
    assert [row.partition("|")[2] for row in _pushed_commits(several_authors)] == subjects


async def test_a_race_within_our_folder_is_planned_again(
    several_authors: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Foreign changes there count: equal files make no second commit."""
    folder = await several_authors.open_folder(window_seconds=0.0)
    _backlog(several_authors, folder, 12)
    send, written = pushing._send, [True]

    async def send_after_foreign_push(attempt: Any) -> None:
        if written:
            written.clear()
            commit_files(
                several_authors.repository,
                {config_map_path("o-3"): "a: 3\n", f"{BASE}/note": "hi\n"},
            )
        await send(attempt)

    monkeypatch.setattr(pushing, "_send", send_after_foreign_push)
    await several_authors.write_group()
    assert len(_pushed_commits(several_authors)) == 11
    assert files_at(several_authors.repository)[f"{BASE}/note"] == "hi\n"
    assert folder.pending == 0


async def test_commits_pushed_before_a_failure_are_not_written_again(
    several_authors: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIT-8: a remote that fails between two pushes gets the rest later, with its authors."""
    folder = await several_authors.open_folder(window_seconds=0.0)
    _backlog(several_authors, folder, 6)
    for number, text in ((20, "b: 1\n"), (21, "b: 2\n"), (22, "b: 1\n")):
        # One object, changed by three people, who end where the first of them began.
        several_authors.add_update(folder, "shared", text, uid=f"shared-{number}")
    send, pushes = pushing._send, count()

    async def send_after_foreign_push(attempt: Any) -> None:
        number = next(pushes)
        if number == 0:
            commit_files(several_authors.repository, {"theirs": "1\n"})
        if number == 2:
            raise GitError("Unavailable", "gone for now")
        await send(attempt)

    with monkeypatch.context() as patch:
        patch.setattr(pushing, "_send", send_after_foreign_push)
        await several_authors.write_group()
    assert several_authors.group.error is not None
    assert several_authors.group.error.reason == "GitUnavailable"
    landed = _pushed_commits(several_authors)
    assert len(landed) == 4
    # A change back to what Git has is no news only if nothing waits for its path.
    several_authors.add_update(folder, "o-5", None)
    await several_authors.write_group()
    assert several_authors.group.error is None
    assert _pushed_commits(several_authors)[:4] == landed
    assert [
        row.split("|")[0] for row in _pushed_commits(several_authors) if "shared" in row
    ] == list(PEOPLE[:3])
    assert config_map_path("o-5") not in files_at(several_authors.repository)
    assert folder.pending == 0


async def test_a_push_that_lands_ends_the_report_of_lost_races(
    several_authors: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PushRaced goes with the first push that lands, not with the last of a long backlog."""
    folder = await several_authors.open_folder(window_seconds=0.0)
    _backlog(several_authors, folder, 8)
    _push_during(several_authors, monkeypatch, longest=1)
    send, reasons = pushing._send, list[str]()

    async def send_and_note(attempt: Any) -> None:
        error = several_authors.group.error
        reasons.append(error.reason if error is not None else "")
        await send(attempt)

    monkeypatch.setattr(pushing, "_send", send_and_note)
    await several_authors.write_group()
    assert reasons[:5] == ["", "", "", "PushRaced", ""]
    assert len(_pushed_commits(several_authors)) == 8


async def test_an_object_recreated_before_its_removal_is_pushed_keeps_its_file(
    several_authors: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: after a push of the first commits, those that remove its file are still to come."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: gone\n  namespace: ns\n"
    folder = await several_authors.open_folder(window_seconds=0.0)
    several_authors.add_update(folder, "gone", text, uid="gone-1")
    await several_authors.write_group()
    _backlog(several_authors, folder, 4)
    gone = (Identity(MAPS, "ns", "gone"),)
    live = frozenset(config_map_path(f"o-{number}") for number in range(4))
    several_authors.worker.add_snapshot(
        folder, ScopeSnapshot(MAPS, "ConfigMap", "ns", live, False, operation_mask(()), gone)
    )
    await several_authors.wait_until_due()
    lost_races = _push_during(several_authors, monkeypatch, longest=4)
    send, idle = pushing._send, list[bool]()

    async def send_after_recreation(attempt: Any) -> None:
        if not folder.window and config_map_path("o-0") in folder.index:
            idle.append(folder.is_idle)
            several_authors.add_update(folder, "gone", text, uid="gone-2")
        await send(attempt)

    monkeypatch.setattr(pushing, "_send", send_after_recreation)
    await several_authors.write_group()
    assert (next(lost_races), idle) == (2, [False])
    assert config_map_path("gone") not in files_at(several_authors.repository)
    await several_authors.wait_until_due()
    await several_authors.write_group()
    assert files_at(several_authors.repository)[config_map_path("gone")] == text
    assert (folder.pending, folder.is_idle) == (0, True)


async def test_a_folder_that_could_not_be_loaded_from_a_new_tip_is_not_written(
    several_authors: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SNP-11: a claim on a tip that we follow counts, also if reading it failed the first time."""
    folder = await several_authors.open_folder(window_seconds=0.0)
    several_authors.add_update(folder, "one", uid="one-1")
    theirs = folder_claim.render_claim(folder_claim.FolderClaim("other-uid", "ns/dest"))
    commit_files(several_authors.repository, {folder.claim_path: theirs.decode()})
    before = files_at(several_authors.repository)

    async def unavailable(path: str) -> dict[str, Any]:
        raise GitError("Unavailable", "gone for now")

    with monkeypatch.context() as patch:
        patch.setattr(several_authors.branch, "entries", unavailable)
        await several_authors.write_group()
    assert several_authors.group.error is not None
    assert several_authors.group.error.reason == "GitUnavailable"
    await several_authors.write_group()
    assert folder.error is not None
    assert folder.error.reason == "FolderClaimed"
    assert files_at(several_authors.repository) == before


async def test_a_new_cause_replaces_the_previous_one(
    several_authors: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A push that loses a race has reached the server, which is not unavailable any more."""
    folder = await several_authors.open_folder(window_seconds=0.0)
    _backlog(several_authors, folder, 4)
    reasons: list[str] = []
    send = pushing._send

    async def unavailable(attempt: Any) -> None:
        raise GitError("Unavailable", "gone for now")

    async def send_after_foreign_push(attempt: Any) -> None:
        error = several_authors.group.error
        reasons.append(error.reason if error is not None else "")
        if len(reasons) == 1:
            commit_files(several_authors.repository, {"theirs": "1\n"})
        await send(attempt)

    with capture_logs() as logs:
        monkeypatch.setattr(pushing, "_send", unavailable)
        await several_authors.write_group()
        monkeypatch.setattr(pushing, "_send", send_after_foreign_push)
        await several_authors.write_group()
    assert reasons[:2] == ["GitUnavailable", "PushRaced"]
    assert several_authors.group.error is None
    lines = [(row["event"], row.get("reason") or row.get("after")) for row in logs]
    assert [line for line in lines if line[0].startswith("push")] == [
        ("push failed; retrying", "GitUnavailable"),
        ("push failed; retrying", "PushRaced"),
        ("push recovered", "PushRaced"),
    ]


async def test_an_unavailable_remote_has_one_reason(
    several_authors: WorkerHarness, git_host: RunningGitServer
) -> None:
    """A failed push and a failed fetch are one cause and one line in the log."""
    folder = await several_authors.open_folder(window_seconds=0.0)
    _backlog(several_authors, folder, 1)
    with capture_logs() as logs:
        git_host.server.faults.set(GitFault("error"))
        try:
            await several_authors.write_group()
            several_authors.worker.branch_observed(several_authors.target.key, "0" * 40, flush=True)
            await several_authors.write_group()
        finally:
            git_host.server.faults.clear()
    assert several_authors.group.error is not None
    assert several_authors.group.error.reason == "GitUnavailable"
    assert [row["reason"] for row in logs if row["event"] == "push failed; retrying"] == [
        "GitUnavailable"
    ]
