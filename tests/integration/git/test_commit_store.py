"""The commit store: exactly one commit, and of it only the needed blobs, from real servers."""

from __future__ import annotations

import random
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

import pygit2
import pytest

from tests.support.git.http_server import (
    RunningGitServer,
    branch_tips,
    commit_files,
    git,
    git_settings,
    running_git_server,
)
from windlass.base import failpoint
from windlass.git import commit_store as module
from windlass.git import rebuild
from windlass.git.commit_store import CommitStore, RemoteSource
from windlass.git.errors import GitError, StoreCorrupt
from windlass.git.runner import Git
from windlass.git.store import Store
from windlass_dev.git_server.fault_injection import GitFault
from windlass_dev.git_server.smart_http import GitServer

_CAP = 64 * 1024 * 1024


def _store(tmp_path: Path, *, cap_bytes: int = _CAP) -> CommitStore:
    return CommitStore.open(Git(git_settings(tmp_path)), tmp_path / "store", cap_bytes=cap_bytes)


def _remote_source(served: RunningGitServer, name: str = "a") -> RemoteSource:
    return RemoteSource(served.remote(name))


def _blobs(store: CommitStore, commit: str, folder: str = "") -> dict[str, str]:
    return {path: entry.blob for path, entry in store.listing(commit, folder).items()}


def _contents(store: CommitStore, commit: str) -> dict[str, bytes]:
    return {path: store.read(blob) for path, blob in _blobs(store, commit).items()}


def _posts(served: RunningGitServer) -> int:
    return sum(seen.method == "POST" for seen in served.server.requests)


def _noise(seed: int, size: int) -> str:
    """Text that hardly compresses."""
    source = random.Random(seed)
    return "".join(
        source.choices("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV", k=size)
    )


@pytest.fixture
def old_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that speak protocol version 0."""
    original = GitServer._variables
    monkeypatch.setattr(
        GitServer, "_variables", lambda self, *args: original(self, *args) | {"GIT_PROTOCOL": ""}
    )


def _refuse_ids(repository: Path) -> None:
    git(repository, "config", "uploadpack.allowAnySHA1InWant", "false")


def _refuse_filters(repository: Path) -> None:
    git(repository, "config", "uploadpack.allowFilter", "false")


@pytest.mark.scenario("G13")
async def test_only_the_needed_blobs_are_fetched(tmp_path: Path) -> None:
    """Directories by id, then blobs by id; nothing else is transferred or left in config."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"x/a": "1", "x/b": "2", "y/c": "3"})
        tip = branch_tips(repository)["main"]
        store = _store(tmp_path)
        assert await store.fetch(_remote_source(served), tip) == tip
        blobs = _blobs(store, tip)
        assert sorted(blobs) == ["x/a", "x/b", "y/c"]
        assert len(store.missing(blobs.values())) == 3
        await store.need(_blobs(store, tip, "x").values())
        assert store.missing(blobs.values()) == [blobs["y/c"]]
        assert store.read(blobs["x/a"]) == b"1"
        assert "remote" not in (store.directory / "config").read_text()
        assert store.targets() == ()
        store.keep(tip)
        assert store.targets() == (tip,)


@pytest.mark.scenario("G13")
async def test_a_server_without_filters_gives_the_same(tmp_path: Path) -> None:
    """It sends everything; the same code continues."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"x/a": "1", "y": "2"})
        _refuse_filters(repository)
        store = _store(tmp_path)
        tip = await store.fetch(_remote_source(served), branch_tips(repository)["main"])
        await store.need(_blobs(store, tip).values())
        assert _contents(store, tip) == {"x/a": b"1", "y": b"2"}


@pytest.mark.scenario("G14")
async def test_the_named_commit_is_fetched_not_the_tip(tmp_path: Path) -> None:
    """The branch moved on in between, by a commit and by a forced push."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"x": "old"})
        wanted = branch_tips(repository)["main"]
        commit_files(repository, {"x": "new"})
        commit_files(repository, {"x": "forced"}, orphan=True)
        store = _store(tmp_path)
        assert await store.fetch(_remote_source(served), wanted, ref="refs/heads/main") == wanted
        await store.need(_blobs(store, wanted).values())
        assert _contents(store, wanted) == {"x": b"old"}


async def test_blobs_are_fetched_also_after_the_commit_was_kept(tmp_path: Path) -> None:
    """Another mapping of a kept commit needs more of it."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"x": "1", "y": "2"})
        store = _store(tmp_path)
        tip = await store.fetch(_remote_source(served), branch_tips(repository)["main"])
        blobs = _blobs(store, tip)
        await store.need([blobs["x"]])
        store.keep(tip)
        again = _store(tmp_path)
        before = _posts(served)
        assert await again.fetch(_remote_source(served), tip) == tip
        assert _posts(served) == before
        await again.need(blobs.values())
        assert _contents(again, tip) == {"x": b"1", "y": b"2"}


async def test_blobs_are_fetched_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch is one call; existing blobs are not requested again."""
    monkeypatch.setattr(module, "BATCH", 10)
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {f"f{n}": str(n) for n in range(25)})
        store = _store(tmp_path)
        tip = await store.fetch(_remote_source(served), branch_tips(repository)["main"])
        before = _posts(served)
        blobs = _blobs(store, tip).values()
        await store.need(blobs)
        # One exchange is two requests: the list of refs, then the pack.
        assert _posts(served) - before <= 6
        done = _posts(served)
        await store.need(blobs)
        assert _posts(served) == done


@pytest.mark.usefixtures("old_protocol")
async def test_old_protocol_with_filters_but_without_ids(tmp_path: Path) -> None:
    """The tip comes without blobs, the blobs are refused: everything is fetched again, whole."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"x": "1", "y": "2"})
        _refuse_ids(repository)
        store = _store(tmp_path)
        tip = await store.fetch(
            _remote_source(served), branch_tips(repository)["main"], ref="refs/heads/main"
        )
        assert rebuild.is_partial(store.directory)
        await store.need(_blobs(store, tip).values())
        assert not rebuild.is_partial(store.directory)
        assert _contents(store, tip) == {"x": b"1", "y": b"2"}


@pytest.mark.usefixtures("old_protocol")
@pytest.mark.parametrize("ref", ["refs/heads/main", ""])
async def test_old_protocol_finds_a_commit_behind_the_tip(tmp_path: Path, ref: str) -> None:
    """Fifty commits of the named ref, or of all refs without a name."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"x": "0"})
        wanted = branch_tips(repository)["main"]
        for number in range(1, 5):
            commit_files(repository, {"x": str(number)})
        _refuse_ids(repository)
        _refuse_filters(repository)
        store = _store(tmp_path)
        assert await store.fetch(_remote_source(served), wanted, ref=ref) == wanted
        await store.need(_blobs(store, wanted).values())
        assert _contents(store, wanted) == {"x": b"0"}
        assert git(store.directory, "for-each-ref") == ""


@pytest.mark.usefixtures("old_protocol")
@pytest.mark.parametrize("ref", ["refs/heads/main", "refs/heads/gone", ""])
async def test_old_protocol_cannot_reach_every_commit(tmp_path: Path, ref: str) -> None:
    """A commit that no ref leads to is unreachable there."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"x": "old"})
        wanted = branch_tips(repository)["main"]
        commit_files(repository, {"x": "forced"}, orphan=True)
        _refuse_ids(repository)
        with pytest.raises(GitError) as caught:
            await _store(tmp_path).fetch(_remote_source(served), wanted, ref=ref)
        assert caught.value.reason == "CommitUnreachable"


async def test_ids_that_are_no_commit(tmp_path: Path) -> None:
    """Tags are peeled, blobs and trees refused, unknown ids unreachable."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"d/x": "1"})
        tip = branch_tips(repository)["main"]
        git(repository, "tag", "-a", "-m", "one", "one", tip)
        git(repository, "tag", "-a", "-m", "two", "two", "one")
        store = _store(tmp_path)
        nested = git(repository, "rev-parse", "two").strip()
        assert await store.fetch(_remote_source(served), nested) == tip
        for other in ("main:d", "main:d/x"):
            with pytest.raises(GitError, match="not a commit") as caught:
                await store.fetch(
                    _remote_source(served), git(repository, "rev-parse", other).strip()
                )
            assert caught.value.reason == "CommitUnreachable"
        with pytest.raises(GitError, match="does not have it") as caught:
            await store.fetch(_remote_source(served), "1" * 40)
        assert caught.value.reason == "CommitUnreachable"
        with pytest.raises(GitError) as caught:
            await store.fetch(_remote_source(served), "1" * 64)
        assert caught.value.reason == "UnsupportedObjectFormat"


async def test_diff_reads_only_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal directories are skipped; files may become directories and back."""
    with running_git_server(tmp_path / "srv") as served:
        files = {f"d{n}/f": str(n) for n in range(20)} | {"d1/sub/g": "g", "turn": "file"}
        repository = served.create("a", files)
        old = branch_tips(repository)["main"]
        new = commit_files(
            repository,
            {"d1/sub/g": "changed", "d2/f": None, "d3/new": "n", "turn": None, "turn/x": "dir"},
        )
        store = _store(tmp_path)
        for commit in (old, new):
            await store.fetch(_remote_source(served), commit)
        read: list[str] = []
        original = store._store.read_tree
        monkeypatch.setattr(
            store._store,
            "read_tree",
            lambda tree: read.append(tree) or original(tree),  # type: ignore[func-returns-value]
        )
        changes = store.diff(old, new)
        assert {path: (bool(one.before), bool(one.after)) for path, one in changes.items()} == {
            "d1/sub/g": (True, True),
            "d2/f": (True, False),
            "d3/new": (False, True),
            "turn": (True, False),
            "turn/x": (False, True),
        }
        assert len(read) <= 12
        assert store.diff(new, new) == {}


async def test_large_blobs_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file is streamed in pieces, verified by its id; wrong content is an error."""
    text = _noise(1, 300_000)
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"big": text})
        store = _store(tmp_path)
        tip = await store.fetch(_remote_source(served), branch_tips(repository)["main"])
        blob = _blobs(store, tip)["big"]
        await store.need([blob])
        pieces: list[bytes] = []
        assert await store.stream(blob, pieces.append) == store.size(blob) == 300_000
        assert b"".join(pieces) == text.encode()
        assert len(pieces) > 1
        assert not store.is_large(blob)
        monkeypatch.setattr(module, "STREAM_FROM_BYTES", 299_999)
        assert store.is_large(blob)


async def test_content_under_a_wrong_id_is_corrupt(tmp_path: Path) -> None:
    """Neither reading nor streaming accepts it, and the next fetch starts over."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"x": "good"})
        store = _store(tmp_path)
        tip = await store.fetch(_remote_source(served), branch_tips(repository)["main"])
        blob = _blobs(store, tip)["x"]
        await store.need([blob])
        _poison(store.directory, blob)
        fresh = CommitStore(Git(git_settings(tmp_path)), store._store, cap_bytes=_CAP)
        with pytest.raises(StoreCorrupt):
            fresh.read(blob)
        with pytest.raises(GitError):
            await fresh.stream(blob, lambda piece: None)
        await fresh.fetch(_remote_source(served), tip)
        await fresh.need([blob])
        assert fresh.read(blob) == b"good"


def _poison(directory: Path, blob: str) -> None:
    """Put other content where the blob is looked up first."""
    for path in (directory / "objects" / "pack").glob("*"):
        path.unlink()
    loose = directory / "objects" / blob[:2] / blob[2:]
    loose.parent.mkdir(exist_ok=True)
    loose.write_bytes(zlib.compress(b"blob 4\0evil"))


@pytest.mark.scenario("G17")
@pytest.mark.parametrize("reopened", [True, False])
async def test_a_truncated_pack_is_fetched_again(tmp_path: Path, reopened: bool) -> None:
    """Detected when the store is opened, or by the first read that fails."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {f"d{n}/f": str(n) for n in range(30)})
        store = _store(tmp_path)
        tip = await store.fetch(_remote_source(served), branch_tips(repository)["main"])
        blobs = _blobs(store, tip)
        await store.need(blobs.values())
        store.keep(tip)
        for pack in (store.directory / "objects" / "pack").glob("*.pack"):
            pack.chmod(0o644)
            pack.write_bytes(pack.read_bytes()[:40])
        if reopened:
            store.close()
            store = _store(tmp_path)
        else:
            # libgit2 keeps what it has read of a pack: only a new look sees the damage.
            store.close()
            store._store = Store(store.directory, pygit2.Repository(str(store.directory)))
            with pytest.raises(StoreCorrupt):
                store.listing(tip)
        assert await store.fetch(_remote_source(served), tip) == tip
        await store.need(blobs.values())
        assert len(_contents(store, tip)) == 30


@pytest.mark.scenario("G18")
async def test_a_fetch_over_the_cap_is_stopped(tmp_path: Path) -> None:
    """Nothing of it stays, and a smaller one still succeeds."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"small": "1"})
        small = branch_tips(repository)["main"]
        large = commit_files(repository, {"large": _noise(2, 3_000_000)})
        cap = 1_000_000
        store = _store(tmp_path, cap_bytes=cap)
        await store.fetch(_remote_source(served), large)
        with pytest.raises(GitError) as caught:
            await store.need(_blobs(store, large).values())
        assert caught.value.reason == "TooLarge", caught.value
        assert sum(path.stat().st_size for path in store.directory.rglob("*")) < cap
        await store.fetch(_remote_source(served), small)
        await store.need(_blobs(store, small).values())
        assert _contents(store, small) == {"small": b"1"}


@pytest.mark.scenario("G18")
async def test_an_endless_pack_is_stopped_by_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many files that are each small enough: the sum counts."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {f"f{n}": _noise(n, 200_000) for n in range(10)})
        _refuse_filters(repository)
        monkeypatch.setattr(module, "_LIMITS", (("fetch.unpackLimit", "1000"),))
        with pytest.raises(GitError) as caught:
            await _store(tmp_path, cap_bytes=700_000).fetch(
                _remote_source(served), branch_tips(repository)["main"]
            )
        assert caught.value.reason == "TooLarge"


async def test_a_full_store_is_emptied_for_a_commit_that_fits(tmp_path: Path) -> None:
    """A commit that fits into an empty store is fetched into an emptied one."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"x": _noise(1, 300_000)})
        first = branch_tips(repository)["main"]
        second = commit_files(repository, {"x": _noise(2, 700_000)})
        store = _store(tmp_path, cap_bytes=700_000)
        for commit in (first, second):
            await store.fetch(_remote_source(served), commit)
            await store.need(_blobs(store, commit).values())
            store.keep(commit)
        assert len(_contents(store, second)["x"]) == 700_000
        assert store.targets() == (second,)


async def test_the_last_three_targets_stay(tmp_path: Path) -> None:
    """Older ones are removed when the store is more than half full, without a remote call."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"base/f": "same"})
        commits = [commit_files(repository, {"x": _noise(number, 100_000)}) for number in range(6)]
        store = _store(tmp_path, cap_bytes=800_000)
        for commit in commits:
            await store.fetch(_remote_source(served), commit)
            await store.need(_blobs(store, commit).values())
            store.keep(commit)
        assert store.targets() == tuple(reversed(commits[-3:]))
        last = commit_files(repository, {"y": "1"})
        await store.fetch(_remote_source(served), last)
        await store.need(_blobs(store, last).values())
        store.keep(last)
        before = _posts(served)
        for commit in commits[-2:]:
            assert _contents(store, commit)["base/f"] == b"same"
        assert store.missing([commits[0]]) == [commits[0]]
        assert _posts(served) == before
        git(store.directory, "fsck", "--connectivity-only", last)


async def test_keeping_again_moves_a_target_to_the_front(tmp_path: Path) -> None:
    """A rollback to an older target does not remove others."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"x": "0"})
        commits = [commit_files(repository, {"x": str(number)}) for number in range(1, 4)]
        store = _store(tmp_path)
        for commit in (*commits, commits[0], commits[0]):
            await store.fetch(_remote_source(served), commit)
            store.keep(commit)
        assert store.targets() == (commits[0], commits[2], commits[1])


async def test_many_packs_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store in many packs is repacked, also one with only part of its blobs."""
    monkeypatch.setattr(module, "_MAX_PACKS", 4)
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"x": "0", "never": "needed"})
        store = _store(tmp_path)
        commits = [commit_files(repository, {"x": str(number)}) for number in range(1, 6)]
        for commit in commits:
            await store.fetch(_remote_source(served), commit)
            await store.need([_blobs(store, commit)["x"]])
            store.keep(commit)
        packs = list((store.directory / "objects" / "pack").glob("*.pack"))
        assert len(packs) <= 6
        for number, commit in enumerate(commits[-2:], start=4):
            assert store.read(_blobs(store, commit)["x"]) == str(number).encode()
        await store.need(_blobs(store, commits[-1]).values())
        assert _contents(store, commits[-1])["never"] == b"needed"


async def test_a_whole_store_grows_by_the_difference(tmp_path: Path) -> None:
    """Without filter into a complete store: every blob is fetched, a partial one is replaced."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {f"f{n}": _noise(n, 20_000) for n in range(10)})
        first = branch_tips(repository)["main"]
        store = _store(tmp_path)
        await store.fetch(_remote_source(served), first)
        await store.fetch(_remote_source(served), first, whole=True)
        assert len(_contents(store, first)) == 10
        store.keep(first)
        before = sum(path.stat().st_size for path in store.directory.rglob("*.pack"))
        second = commit_files(repository, {"f0": "small"})
        await store.fetch(_remote_source(served), second, whole=True)
        after = sum(path.stat().st_size for path in store.directory.rglob("*.pack"))
        assert _contents(store, second)["f0"] == b"small"
        assert after - before < 20_000


async def test_a_transient_fault_is_reported_as_such(tmp_path: Path) -> None:
    """The store stays; the next try succeeds."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"x": "1"})
        tip = branch_tips(repository)["main"]
        store = _store(tmp_path)
        served.server.faults.set(GitFault("error", times=1))
        with pytest.raises(GitError) as caught:
            await store.fetch(_remote_source(served), tip)
        assert caught.value.reason == "Unavailable"
        served.server.faults.set(
            GitFault("cut", service="upload-pack", advertisement=False, times=1)
        )
        with pytest.raises(GitError) as caught:
            await store.fetch(_remote_source(served), tip)
        assert caught.value.is_transient
        assert await store.fetch(_remote_source(served), tip) == tip


async def test_a_crash_before_the_ref_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commit and blobs exist after a restart, only not yet recorded as a target."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"x": "1"})
        store = _store(tmp_path)
        tip = await store.fetch(_remote_source(served), branch_tips(repository)["main"])
        await store.need(_blobs(store, tip).values())
        monkeypatch.setattr(failpoint, "_armed", {"git.exact.keep.before": ("error", 1)})
        monkeypatch.setattr(failpoint, "_visits", Counter())
        with pytest.raises(OSError, match="failpoint"):
            store.keep(tip)
        again = _store(tmp_path)
        before = len(served.server.requests)
        assert await again.fetch(_remote_source(served), tip) == tip
        await again.need(_blobs(again, tip).values())
        assert len(served.server.requests) == before
        again.keep(tip)
        assert again.targets() == (tip,)


async def test_blobs_need_a_commit(tmp_path: Path) -> None:
    """Blobs belong to the commit that was fetched last."""
    with pytest.raises(ValueError, match="before its blobs"):
        await _store(tmp_path).need(["1" * 40])


def test_the_store_imports_no_kubernetes_client() -> None:
    """Importing it loads neither the client nor the operator's runtime."""
    code = (
        "import sys, windlass.git.commit_store; print([m for m in sys.modules if 'windlass' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "windlass.git.commit_store" in done.stdout
    assert not any(f"windlass.{room}" in done.stdout for room in ("kube", "runtime", "sources"))
