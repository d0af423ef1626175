"""A gateway's data directory in tests: plans from dictionaries, and the resulting tree."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from windlass.gateways.tree import path_rules
from windlass.gateways.tree.manifest import FileStat, ManagedRoot, Manifest, ManifestEntry
from windlass.gateways.tree.path_rules import STATE_DIRECTORY
from windlass.gateways.tree.plan import Plan
from windlass.gateways.tree.plan_steps import PlanStep
from windlass.gateways.volume import state_directory
from windlass.gateways.volume.data_volume import DataVolume
from windlass.gateways.volume.lock import LockOwner
from windlass.gateways.volume.staging import DiskReserve
from windlass.gateways.volume.transaction import ApplyResult, Transaction

Files = Mapping[str, bytes]

OWNER = LockOwner("uid-1", "gateway-0", "node-a")
NO_RESERVE = DiskReserve(share=0.0, minimum=0)
ROOT = ManagedRoot("projects", "dir")

OLD: Files = {
    "projects/site/project.json": b'{"title": "old"}',
    "projects/site/view/resource.json": b'{"files": ["view.json"]}',
    "projects/site/view/view.json": b"old view",
    "projects/site/gone/resource.json": b'{"files": []}',
    "projects/site/becomes-folder": b"a file",
    "projects/site/becomes-file/inner": b"in a folder",
    "projects/site/same": b"unchanged",
}
NEW: Files = {
    "projects/site/project.json": b'{"title": "new"}',
    "projects/site/view/resource.json": b'{"files": ["view.json", "more.bin"]}',
    "projects/site/view/view.json": b"a new view that is longer",
    "projects/site/view/more.bin": bytes(range(256)) * 20,
    "projects/site/becomes-folder/inner": b"now in a folder",
    "projects/site/becomes-file": b"now a file",
    "projects/site/same": b"unchanged",
    "projects/other/deep/down/new.txt": b"",
}


def applier(data: Path, owner: LockOwner = OWNER, **settings: int) -> DataVolume:
    """A data volume without a disk reserve."""
    return DataVolume(data, owner, reserve=NO_RESERVE, **settings)


def sync(target: DataVolume, files: Files, commit: str) -> ApplyResult:
    """Sync exactly `files` below the managed root."""
    with target.begin() as transaction:
        return commit_files(target, transaction, files, commit)


def commit_files(
    target: DataVolume, transaction: Transaction, files: Files, commit: str
) -> ApplyResult:
    """Stage and commit the differences between the disk and `files`."""
    live = read_tree(target.directory.root)
    before = target.manifest()
    for path, content in files.items():
        if live.get(path) != content:
            transaction.stage(path, content)
    ops = plan_operations(live, files)
    return transaction.commit(
        make_plan(ops, before, commit), expected_manifest(target, files, commit)
    )


def make_plan(ops: tuple[PlanStep, ...], before: Manifest | None, commit: str) -> Plan:
    """A plan with the steps `ops`."""
    return Plan(
        gateway="gateway",
        from_commit=before.commit if before is not None else "",
        to_commit=commit,
        profile_hash="",
        roots=(ROOT,),
        ops=ops,
        skipped=(),
        overrides=(),
        unused=(),
        warnings=(),
        guards=(),
        scans=(),
    )


def plan_operations(live: Mapping[str, bytes | None], files: Files) -> tuple[PlanStep, ...]:
    """The steps from one tree to another, in the order of the specification."""
    parents = {folder for path in files for folder in path_rules.parents(path)}
    deleted = [path for path, content in live.items() if content is not None and path not in files]
    folders = [path for path, content in live.items() if content is None and path not in parents]
    blocking = [path for path in deleted if path in parents or _is_under(path, files)]
    puts = [path for path in sorted(files, key=_resource_last) if live.get(path) != files[path]]
    return (
        *(PlanStep("delete", path) for path in blocking),
        *(PlanStep("rmdir", path) for path in _deepest(folders) if _clears(path, files)),
        *(_put(path, files[path]) for path in puts),
        *(PlanStep("delete", path) for path in sorted(deleted, key=_resource_last, reverse=True)
          if path not in blocking),
        *(PlanStep("rmdir", path) for path in _deepest(folders) if not _clears(path, files)),
    )  # fmt: skip


def read_tree(data: Path) -> dict[str, bytes | None]:
    """Every file with its content, every directory with None; without our own state."""
    tree: dict[str, bytes | None] = {}
    for directory, folders, names in os.walk(data):
        folder = Path(directory)
        if folder == data:
            folders[:] = [name for name in folders if name != STATE_DIRECTORY]
        for name in folders:
            tree[(folder / name).relative_to(data).as_posix()] = None
        for name in names:
            tree[(folder / name).relative_to(data).as_posix()] = (folder / name).read_bytes()
    tree.pop("projects", None)
    return tree


def expected_tree(files: Files) -> dict[str, bytes | None]:
    """What `read_tree` returns for exactly `files`."""
    folders = {folder for path in files for folder in path_rules.parents(path)} - {"projects"}
    return {**dict.fromkeys(folders), **files}


def expected_manifest(target: DataVolume, files: Files, commit: str) -> Manifest:
    """The manifest of the volume after a sync of `files`."""
    stats = stat_files(target, files)
    entries = {
        path: ManifestEntry(digest(content), len(content), "", stat=stats.get(path))
        for path, content in files.items()
    }
    return Manifest(commit=commit, roots=(ROOT,), files=entries)


def assert_complete(data: Path, trees: Mapping[str, Files]) -> str:
    """The tree is exactly that of the manifest's commit, and nothing else is left over."""
    with applier(data) as volume:
        manifest = volume.manifest()
    commit = manifest.commit if manifest is not None else ""
    assert read_tree(data) == expected_tree(trees[commit]), f"not the tree of {commit!r}"
    entries = manifest.files if manifest is not None else {}
    if manifest is not None:
        assert {path: entry.sha256 for path, entry in entries.items()} == {
            path: digest(content) for path, content in trees[commit].items()
        }
    assert_no_leftovers(data)
    return commit


def assert_no_leftovers(data: Path) -> None:
    """The state directory contains a manifest, a lock and at most one complete undo."""
    state = data / STATE_DIRECTORY
    if not state.exists():
        return
    names = {path.name for path in state.iterdir()}
    assert names <= {"lock", "manifest.json", "staging", "undo"}, names
    assert not list((state / "staging").glob("*"))
    undos = list((state / "undo").glob("*"))
    assert len(undos) <= 1, undos
    for folder in undos:
        assert (folder / "record").exists()
        assert not list(folder.glob("*.go"))
    assert not [path for path in data.rglob("*") if ".wl-" in path.name]


def digest(content: bytes) -> str:
    """The sha256 of some content."""
    return hashlib.sha256(content).hexdigest()


def _put(path: str, content: bytes) -> PlanStep:
    return PlanStep("put", path, digest(content), len(content))


def _resource_last(path: str) -> tuple[bool, str]:
    return path_rules.base_name(path) in ("resource.json", "project.json"), path


def _deepest(folders: list[str]) -> list[str]:
    return sorted(folders, key=lambda path: (-path.count("/"), path))


def _is_under(path: str, files: Files) -> bool:
    return any(folder in files for folder in path_rules.parents(path))


def _clears(folder: str, files: Files) -> bool:
    return folder in files or _is_under(folder, files)


def stat_files(applier: DataVolume, paths: Iterable[str]) -> dict[str, FileStat]:
    """The stats of files as a manifest stores them."""
    stats = {path: applier.directory.stat(path) for path in paths}
    return {path: state_directory.file_stat(info) for path, info in stats.items() if info}
