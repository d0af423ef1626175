"""Stores: partial fetches, edits without blobs, discarded when broken."""

from __future__ import annotations

import errno
import stat
from collections import Counter
from pathlib import Path

import pytest

from tests.support.git.http_server import (
    RunningGitServer,
    commit_files,
    git,
    git_settings,
    running_git_server,
)
from tests.support.git.workspace import GitWorkspace
from windlass.base import failpoint
from windlass.git import trees
from windlass.git.errors import GitError, PathOccupied, StoreCorrupt
from windlass.git.format import objects
from windlass.git.push import Pushed
from windlass.git.runner import Git
from windlass.git.store import Store
from windlass.git.trees import edit_tree
from windlass_dev.git_server.smart_http import GitServer


def written_blob(store: Store, content: bytes) -> str:
    """A blob that no tree contains yet."""
    blob = objects.blob_id(content)
    store.write_objects({blob: ("blob", content)})
    return blob


def _work(tmp_path: Path, served: RunningGitServer, name: str = "a") -> GitWorkspace:
    return GitWorkspace.at(tmp_path / "store", Git(git_settings(tmp_path)), served.remote(name))


async def test_fetch_brings_trees_but_no_blobs(tmp_path: Path) -> None:
    """One commit deep, no content; content is fetched on demand, in one fetch."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"x/a": "1"})
        tip = commit_files(repository, {"x/b": "2", "y": "3"})
        work = _work(tmp_path, served)
        assert await work.fetch() == tip
        assert work.store.tip("refs/heads/main") == tip
        entries = work.store.tree_entries(tip)
        assert sorted(entries) == ["x/a", "x/b", "y"]
        assert sorted(work.store.tree_entries(tip, "x")) == ["x/a", "x/b"]
        assert work.store.tree_entries(tip, "ghost") == work.store.tree_entries(tip, "y") == {}
        ids = [entry.blob for entry in entries.values()]
        assert len(work.store.missing(ids)) == 3
        before = len(served.server.requests)
        got = await work.store.read_blobs(work.git, work.remote, work.credentials, ids)
        assert sorted(got.values()) == [b"1", b"2", b"3"]
        posts = [seen for seen in served.server.requests[before:] if seen.method == "POST"]
        assert len(posts) <= 2
        assert not work.store.is_complete(tip)


async def test_a_server_without_filters_is_supported(tmp_path: Path) -> None:
    """The blobs are fetched with the commit."""
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"x": "1"})
        git(repository, "config", "uploadpack.allowFilter", "false")
        work = _work(tmp_path, served)
        tip = await work.fetch()
        assert work.store.read_blob(work.store.tree_entries(tip)["x"].blob) == b"1"


async def test_a_server_that_refuses_ids_sends_the_commit_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blobs come with a whole fetch if they cannot be fetched by id."""
    original = GitServer._variables
    monkeypatch.setattr(
        GitServer, "_variables", lambda self, *args: original(self, *args) | {"GIT_PROTOCOL": ""}
    )
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", {"x": "1", "y/z": "2"})
        git(repository, "config", "uploadpack.allowAnySHA1InWant", "false")
        work = _work(tmp_path, served)
        tip = await work.fetch()
        ids = [entry.blob for entry in work.store.tree_entries(tip).values()]
        assert len(work.store.missing(ids)) == 2
        got = await work.store.read_blobs(work.git, work.remote, work.credentials, ids)
        assert sorted(got.values()) == [b"1", b"2"]


async def test_whole_fetch_after_a_blobless_one(tmp_path: Path) -> None:
    """A store can be completed later."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"x": "1"})
        work = _work(tmp_path, served)
        tip = await work.fetch()
        await work.fetch(blobless=False)
        assert work.store.missing([work.store.tree_entries(tip)["x"].blob]) == []


async def test_a_missing_branch_is_ref_not_found(tmp_path: Path) -> None:
    """Another reason than a missing repository."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"x": "1"})
        with pytest.raises(GitError) as caught:
            await _work(tmp_path, served).fetch("ghost")
    assert caught.value.reason == "RefNotFound"


async def test_sha256_is_unsupported(tmp_path: Path) -> None:
    """A fetch from such a repository fails with that reason."""
    with running_git_server(tmp_path / "srv") as served:
        path = served.server.create("long", object_format="sha256")
        commit_files(path, {"a": "1"})
        with pytest.raises(GitError) as caught:
            await _work(tmp_path, served, "long").fetch()
    assert caught.value.reason == "UnsupportedObjectFormat"


async def test_one_file_among_five_thousand_reads_no_blob(tmp_path: Path) -> None:
    """Commit and push of one file: no content is read, fetched or needed."""
    files = {f"d{n % 50}/f{n}.yaml": f"{n}" for n in range(5000)}
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("a", files)
        work = _work(tmp_path, served)
        tip = await work.fetch()
        ids = [entry.blob for entry in work.store.tree_entries(tip).values()]
        before = len(served.server.requests)
        commit = work.commit(tip, {"d1/f1.yaml": b"new"})
        assert await work.push(commit, tip) == Pushed(tip=commit)
        assert {seen.service for seen in served.server.requests[before:]} == {"receive-pack"}
        assert len(work.store.missing(ids)) == 5000
        assert git(repository, "diff-tree", "-r", "--name-only", tip, commit) == "d1/f1.yaml\n"
        git(repository, "fsck", "--strict")


def _damage_pack(store: Store) -> None:
    for path in (store.directory / "objects" / "pack").glob("*.pack"):
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:30])


def _zero_pack(store: Store) -> None:
    for path in (store.directory / "objects" / "pack").glob("*.pack"):
        path.chmod(0o644)
        path.write_bytes(b"\0" * path.stat().st_size)


def _remove_packs(store: Store) -> None:
    for path in (store.directory / "objects" / "pack").glob("pack-*"):
        path.unlink()


def _cut_index(store: Store) -> None:
    for path in (store.directory / "objects" / "pack").glob("*.idx"):
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize("damage", [_damage_pack, _zero_pack, _remove_packs, _cut_index])
async def test_a_damaged_store_is_reported_and_fetched_again(
    tmp_path: Path, damage: object
) -> None:
    """Corruption is StoreCorrupt; after discarding, everything works."""
    assert callable(damage)
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {f"d{n}/f": str(n) for n in range(50)})
        tip = await _work(tmp_path, served).fetch()
        work = _work(tmp_path, served)
        damage(work.store)
        with pytest.raises(StoreCorrupt):
            work.store.tree_entries(tip)
        work.store.discard()
        assert await work.fetch() == tip
        assert len(work.store.tree_entries(tip)) == 50
        commit = work.commit(tip, {"d1/f": b"x"})
        assert isinstance(await work.push(commit, tip), Pushed)


@pytest.mark.parametrize("damaged", ["HEAD", "config"])
async def test_a_broken_skeleton_is_recreated(tmp_path: Path, damaged: str) -> None:
    """A store that is not a repository any more is replaced when opened."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"x": "1"})
        work = _work(tmp_path, served)
        await work.fetch()
        (work.store.directory / damaged).write_bytes(b"\0garbage")
        fresh = _work(tmp_path, served)
        tip = await fresh.fetch()
        assert list(fresh.store.tree_entries(tip)) == ["x"]


async def test_a_vanished_store_is_corrupt(tmp_path: Path) -> None:
    """Its directory was deleted under a running process."""
    import shutil

    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"x": "1"})
        work = _work(tmp_path, served)
        shutil.rmtree(work.store.directory)
        with pytest.raises(StoreCorrupt):
            await work.fetch()
        work.store.discard()
        assert await work.fetch()


async def test_stale_locks_and_partial_files_are_removed_when_opened(tmp_path: Path) -> None:
    """Leftovers of a killed process do not stop the next one."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"x": "1"})
        first = _work(tmp_path, served)
        tip = await first.fetch()
        (local,) = (path for path in (first.store.directory / "refs" / "windlass").iterdir())
        left = [
            first.store.directory / "shallow.lock",
            local.with_name(local.name + ".lock"),
            first.store.directory / "objects" / "pack" / "tmp_pack_abc",
            first.store.directory / "objects" / "pack" / ".pack-1.pack.xyz",
            tmp_path / ".store.0123" / "HEAD",
        ]
        left[-1].parent.mkdir()
        for path in left:
            path.write_bytes(b"")
        second = _work(tmp_path, served)
        assert not any(path.exists() for path in left)
        assert await second.fetch() == tip


@pytest.mark.parametrize("many", [1, 200])
def test_a_full_disk_is_disk_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """ENOSPC while writing has its own reason, and nothing half-written counts."""
    store = Store.open(tmp_path / "store")
    monkeypatch.setattr(failpoint, "_armed", {"git.store.write.before": ("full", 1)})
    monkeypatch.setattr(failpoint, "_visits", Counter())
    edits = {f"f{n}": b"%d" % n for n in range(many)}
    with pytest.raises(GitError) as caught:
        edit_tree(store, None, edits)
    assert caught.value.reason == "DiskFull"
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.ENOSPC
    assert len(store.read_tree(edit_tree(store, None, edits).tree)) == many


def test_links_and_submodules_are_neither_removed_nor_descended_into(tmp_path: Path) -> None:
    """They may be replaced by a file if the caller allows it, nothing else."""
    from windlass.git.format import objects

    store = Store.open(tmp_path / "store")
    blob = written_blob(store, b"target")
    data = objects.encode_tree(
        {
            b"l": objects.TreeEntry(objects.SYMLINK, blob),
            b"m": objects.TreeEntry(objects.GITLINK, "1" * 40),
        }
    )
    root = objects.object_id("tree", data)
    store.write_objects({root: ("tree", data)})
    for path in ("l/x", "m/x"):
        with pytest.raises(PathOccupied) as caught:
            edit_tree(store, root, {path: b"new"})
        assert caught.value.path == path[0]
    replaced = store.read_tree(edit_tree(store, root, {"l": b"new"}).tree)
    assert replaced[b"l"].is_file
    with pytest.raises(PathOccupied):
        edit_tree(store, root, {"l": None})


def test_listings_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many entries, also empty directories, and too long paths end the walk."""
    from windlass.git import store as module

    work = GitWorkspace.at(tmp_path / "store", Git(git_settings(tmp_path)), None)  # type: ignore[arg-type]
    commit = work.commit(None, {f"d/f{n}": b"" for n in range(20)})
    monkeypatch.setattr(module, "MAX_ENTRIES", 10)
    with pytest.raises(GitError) as caught:
        work.store.tree_entries(commit)
    assert caught.value.reason == "TooLarge"
    tree = objects.EMPTY_TREE
    for _ in range(5):
        rows = "".join(f"040000 tree {tree}\td{n}\n" for n in range(10))
        tree = git(work.store.directory, "mktree", "--missing", stdin=rows.encode()).strip()
    hollow = git(work.store.directory, "commit-tree", tree, "-m", "x").strip()
    monkeypatch.setattr(module, "MAX_ENTRIES", 100)
    with pytest.raises(GitError, match="more than 100 entries"):
        work.store.tree_entries(hollow)
    with pytest.raises(GitError, match="more than 100 entries"):
        trees.changed_files(work.store, objects.EMPTY_TREE, tree)
    monkeypatch.setattr(module, "MAX_PATH_BYTES", 3)
    with pytest.raises(GitError, match="3 bytes"):
        work.store.tree_entries(commit)


async def test_a_broken_store_never_leads_to_a_repository_above(tmp_path: Path) -> None:
    """Git does not use a repository that encloses the store."""
    outer = tmp_path / "outer"
    git(tmp_path, "init", "--quiet", str(outer))
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"x": "1"})
        work = GitWorkspace.at(outer / "store", Git(git_settings(tmp_path)), served.remote("a"))
        (work.store.directory / "HEAD").unlink()
        with pytest.raises(StoreCorrupt):
            await work.fetch()
    assert not list(outer.glob(".git/**/windlass*"))


async def test_a_stale_lock_costs_one_try(tmp_path: Path) -> None:
    """A lock that stops a fetch is removed for the next one."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"x": "1"})
        work = _work(tmp_path, served)
        (work.store.directory / "shallow.lock").write_bytes(b"")
        with pytest.raises(GitError) as caught:
            await work.fetch()
        assert caught.value.is_transient
        assert await work.fetch()


def test_a_store_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Its directory has mode 0700, also if an older one was readable for others."""
    directory = tmp_path / "work" / "store"
    Store.open(directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    directory.chmod(0o755)
    Store.open(directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
