"""Pushes: exactly once, fast-forward only, and decided by the ref."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.git.http_server import (
    PASSWORD,
    RunningGitServer,
    branch_tips,
    commit_files,
    files_at,
    git,
    git_settings,
    running_git_server,
)
from tests.support.git.workspace import GitWorkspace
from windlass.base import failpoint
from windlass.git.errors import GitError
from windlass.git.ls_remote import list_refs
from windlass.git.push import Absent, Outcome, Pushed, Raced, Rejected, Rewound, Transient
from windlass.git.runner import Git
from windlass_dev.git_server.fault_injection import GitFault


def _work(
    tmp_path: Path, served: RunningGitServer, name: str = "store", **settings: object
) -> GitWorkspace:
    return GitWorkspace.at(
        tmp_path / name, Git(git_settings(tmp_path, **settings)), served.remote("a")
    )


def _commits(repository: Path) -> int:
    return int(git(repository, "rev-list", "--count", "main"))


async def test_an_empty_repository_gets_a_root_commit(tmp_path: Path) -> None:
    """Creation expects absence and creates the branch."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a")
        work = _work(tmp_path, served)
        commit = work.commit(None, {"x/y": b"1"})
        assert await work.push(commit, None) == Pushed(tip=commit)
        assert files_at(repository) == {"x/y": "1"}
        assert _commits(repository) == 1


async def test_a_new_branch_starts_at_the_default_tip(tmp_path: Path) -> None:
    """Foreign files of the default branch are on the new one."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"theirs": "1"})
        work = _work(tmp_path, served)
        base = (await list_refs(work.git, work.remote)).tip("main")
        assert await work.fetch() == base
        commit = work.commit(base, {"ours": b"2"})
        assert isinstance(await work.push(commit, None, "mirror"), Pushed)
        assert files_at(repository, "mirror") == {"theirs": "1", "ours": "2"}
        assert branch_tips(repository) == {"main": base, "mirror": commit}


async def test_two_pushers_race_and_no_commit_is_lost(tmp_path: Path) -> None:
    """The slower one gets the new tip, replays and succeeds; no merge, nothing lost."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"f": "1"})
        one, two = _work(tmp_path, served, "one"), _work(tmp_path, served, "two")
        base = await one.fetch()
        assert await two.fetch() == base
        first, second = one.commit(base, {"one": b"1"}), two.commit(base, {"two": b"2"})

        async def push(work: GitWorkspace, commit: str) -> Outcome:
            # While the winner still holds the lock of the ref, the loser may be refused by it.
            while isinstance(outcome := await work.push(commit, base), Transient):
                pass
            return outcome

        outcomes = await asyncio.gather(push(one, first), push(two, second))
        kinds = sorted(type(outcome).__name__ for outcome in outcomes)
        assert kinds == ["Pushed", "Raced"]
        late, edits = (
            (two, {"two": b"2"}) if isinstance(outcomes[1], Raced) else (one, {"one": b"1"})
        )
        tip = next(outcome.tip for outcome in outcomes if isinstance(outcome, Raced))
        assert tip == branch_tips(repository)["main"]
        again = late.commit(tip, edits)
        assert isinstance(await late.push(again, tip), Pushed)
        assert files_at(repository) == {"f": "1", "one": "1", "two": "2"}
        assert _commits(repository) == 3


async def test_a_lost_reply_is_success_and_no_second_commit(tmp_path: Path) -> None:
    """The server accepted, the connection broke: the ref proves success."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"f": "1"})
        work = _work(tmp_path, served)
        base = await work.fetch()
        commit = work.commit(base, {"f": b"2"})
        served.server.faults.set(GitFault("cut", service="receive-pack", advertisement=False))
        assert await work.push(commit, base) == Pushed(already=True, tip=commit)
        assert branch_tips(repository)["main"] == commit
        assert _commits(repository) == 2


async def test_a_lost_reply_is_seen_below_foreign_commits(tmp_path: Path) -> None:
    """Also when others have already built on our commit."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"f": "1"})
        work = _work(tmp_path, served)
        base = await work.fetch()
        commit = work.commit(base, {"f": b"2"})
        assert isinstance(await work.push(commit, base), Pushed)
        for number in range(5):
            tip = commit_files(repository, {"theirs": str(number)})
        assert await work.push(commit, base) == Pushed(already=True, tip=tip)


async def test_many_foreign_commits_are_a_race_not_a_rewrite(tmp_path: Path) -> None:
    """History is fetched deeper until the expected tip is found."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"f": "1"})
        work = _work(tmp_path, served)
        base = await work.fetch()
        commit = work.commit(base, {"ours": b"2"})
        for number in range(4):
            tip = commit_files(repository, {"theirs": str(number)})
        assert await work.push(commit, base) == Raced(tip)
        assert work.store.tree_entries(tip).keys() == {"f", "theirs"}


async def test_rewritten_history_is_never_forced(tmp_path: Path) -> None:
    """A force-push of others is reported; theirs stays."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"f": "1"})
        work = _work(tmp_path, served)
        base = await work.fetch()
        commit = work.commit(base, {"f": b"2"})
        theirs = commit_files(repository, {"other": "1"}, orphan=True)
        assert await work.push(commit, base) == Rewound(theirs)
        assert branch_tips(repository)["main"] == theirs


async def test_a_deleted_branch_is_absent(tmp_path: Path) -> None:
    """It is not silently recreated."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"f": "1"})
        work = _work(tmp_path, served)
        base = await work.fetch()
        git(repository, "update-ref", "-d", "refs/heads/main")
        assert await work.push(work.commit(base, {"f": b"2"}), base) == Absent()
        assert branch_tips(repository) == {}


async def test_creation_loses_against_a_faster_writer(tmp_path: Path) -> None:
    """Expecting absence, a branch that was created meanwhile is a race."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a")
        work = _work(tmp_path, served)
        commit = work.commit(None, {"x": b"1"})
        theirs = commit_files(repository, {"theirs": "1"})
        assert await work.push(commit, None) == Raced(theirs)
        assert branch_tips(repository)["main"] == theirs


async def test_a_protected_branch_rejects_with_the_servers_text(tmp_path: Path) -> None:
    """After unprotecting, the same commit succeeds."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"f": "1"})
        work = _work(tmp_path, served)
        base = await work.fetch()
        commit = work.commit(base, {"f": b"2"})
        served.server.faults.set(GitFault("protected", branch="main"))
        outcome = await work.push(commit, base)
        assert isinstance(outcome, Rejected)
        assert "protected branch" in outcome.message
        served.server.faults.clear()
        assert await work.push(commit, base) == Pushed(tip=commit)


async def test_a_passing_fault_is_transient(tmp_path: Path) -> None:
    """A server error on the push only: the ref has not moved, so it is retried."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"f": "1"})
        work = _work(tmp_path, served)
        base = await work.fetch()
        commit = work.commit(base, {"f": b"2"})
        served.server.faults.set(GitFault("error", service="receive-pack"))
        assert isinstance(await work.push(commit, base), Transient)


async def test_a_dead_server_is_transient(tmp_path: Path) -> None:
    """The ref cannot be read either; nothing is concluded."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"f": "1"})
        work = _work(tmp_path, served)
        base = await work.fetch()
        commit = work.commit(base, {"f": b"2"})
    assert isinstance(await work.push(commit, base), Transient)


async def test_a_hanging_push_is_transient_and_leaves_no_lock(tmp_path: Path) -> None:
    """The deadline ends it; the same commit lands later."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"f": "1"})
        work = _work(tmp_path, served, push_timeout_seconds=1.0)
        base = await work.fetch()
        commit = work.commit(base, {"f": b"2"})
        served.server.faults.set(GitFault("hang", service="receive-pack", advertisement=False))
        outcome = await work.push(commit, base)
        assert isinstance(outcome, Transient)
        assert "timed out after 1 s" in outcome.message
        assert not list(work.store.directory.rglob("*.lock"))
        served.server.faults.clear()
        patient = GitWorkspace(Git(git_settings(tmp_path)), work.store, work.remote)
        assert isinstance(await patient.push(commit, base), Pushed)


async def test_wrong_credentials_on_push_are_reported_as_such(tmp_path: Path) -> None:
    """The ref cannot be read with them either: AuthFailed, not a rejection of the content."""
    with running_git_server(tmp_path / "srv", password=PASSWORD) as served:
        served.create("a", {"f": "1"})
        good = GitWorkspace.at(
            tmp_path / "store", Git(git_settings(tmp_path)), served.remote("a"), served.credentials
        )
        base = await good.fetch()
        commit = good.commit(base, {"f": b"2"})
        with pytest.raises(GitError) as caught:
            await GitWorkspace(good.git, good.store, good.remote).push(commit, base)
    assert caught.value.reason == "AuthFailed"


async def test_only_descendants_are_pushed(tmp_path: Path) -> None:
    """A commit that does not build on the expected tip is never sent."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"f": "1"})
        work = _work(tmp_path, served)
        base = await work.fetch()
        before = len(served.server.requests)
        with pytest.raises(GitError) as caught:
            await work.push(work.commit(None, {"f": b"2"}), base)
        assert caught.value.reason == "NonFastForward"
        assert len(served.server.requests) == before


async def test_large_commits_arrive_whole(tmp_path: Path) -> None:
    """A commit written as one pack passes the server's own checks."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"f": "1"})
        work = _work(tmp_path, served)
        base = await work.fetch()
        commit = work.commit(base, {f"d{n % 9}/f{n}": b"%d" % n for n in range(500)})
        assert isinstance(await work.push(commit, base), Pushed)
        assert len(git(repository, "ls-tree", "-r", "main").splitlines()) == 501
        git(repository, "fsck", "--strict")


@pytest.mark.parametrize("failpoint_name", ["git.push.before", "git.push.after"])
async def test_push_passes_its_failpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failpoint_name: str
) -> None:
    """Before anything is sent, and after the server has accepted."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"f": "1"})
        work = _work(tmp_path, served)
        base = await work.fetch()
        commit = work.commit(base, {"f": b"2"})

        def reach(name: str) -> None:
            if name == failpoint_name:
                raise OSError("tripped")

        with monkeypatch.context() as patched:
            patched.setattr(failpoint, "reach", reach)
            with pytest.raises(OSError, match="tripped"):
                await work.push(commit, base)
        assert (branch_tips(repository)["main"] == commit) is (failpoint_name == "git.push.after")
        outcome = await work.push(commit, base)
        assert isinstance(outcome, Pushed)
        assert _commits(repository) == 2
