"""Builds the batch of a closed window: its updates, the removals it proves, and occupied paths.

Called by the branch worker. Every request to the cluster or to Git on the way may fail; then the
folder still has everything that it had before. A file is removed only if it is ours: this process
wrote it for an object that it observed, or its content names an object whose path is exactly this
one (SNP-3). An empty list is not proof; then every candidate is requested by name, rate limited
(SNP-4). Only candidates of unknown origin are ever read from Git, and files of redacted objects
that a snapshot is about to rewrite: they may show what is redacted today (SEC-2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from windlass.base.clock import Clock
from windlass.kube.api import Api
from windlass.objects.names import Identity, Object
from windlass.reverser import events
from windlass.reverser.content import file_paths, secret_redaction
from windlass.reverser.file_operation import OPERATIONS
from windlass.reverser.publish import path_ownership
from windlass.reverser.publish.file_update import FileUpdate, FolderReview, ScopeSnapshot
from windlass.reverser.publish.folder import Folder, PendingWindow
from windlass.reverser.publish.publisher import FolderBatch
from windlass.reverser.publish.remote_branch import RemoteBranch
from windlass.reverser.publish.worker_hooks import WorkerHooks
from windlass.reverser.selection.rule_coverage import RuleCoverage
from windlass.telemetry.reasons import SkipReason

_ALL_OPERATIONS = frozenset(OPERATIONS)

CONFIRM_INTERVAL_SECONDS = 1 / 50
"""The least time between two GET requests that confirm deletions."""


async def build_batch(
    folder: Folder, window: PendingWindow, branch: RemoteBranch, hooks: WorkerHooks, clock: Clock
) -> FolderBatch:
    """A closed window with the removals that its snapshots prove and the occupied paths."""
    received = clock.now()
    removals: list[FileUpdate] = []
    proven: list[tuple[ScopeSnapshot, FileUpdate]] = []
    for snapshot in window.snapshots:
        if isinstance(snapshot, FolderReview):
            coverage = await hooks.current_coverage(folder)
            removals += await find_uncovered(folder, branch, coverage, received)
        else:
            orphans = await find_orphans(folder, branch, snapshot, hooks.api, received)
            proven += [(snapshot, removal) for removal in orphans]
    if exposed := await find_exposed(folder, branch, window.updates):
        event = events.secrets_exposed(tuple(update.identity for update in exposed))
        hooks.event_queue.add(folder.target.key, event, folder.index[exposed[0].path])
    occupied = await find_occupied(folder, branch, window.updates)
    for path, identity in occupied.items():
        hooks.metrics.count_skip(identity, SkipReason.PATH_OCCUPIED)
        folder.refuse(path, identity, SkipReason.PATH_OCCUPIED)
    # Last, because an object may be recreated while the requests above are under way.
    removals += [update for snapshot, update in proven if update.path not in snapshot.seen_since]
    folder.expect_removals(removals)
    return FolderBatch(folder, window, tuple(removals), frozenset(occupied))


async def find_orphans(
    folder: Folder,
    branch: RemoteBranch,
    snapshot: ScopeSnapshot,
    api: Api,
    received: datetime,
) -> list[FileUpdate]:
    """The removals that a complete snapshot proves; files from before any claim stay."""
    if not (folder.is_claimed or folder.was_claimed):
        return []
    prefix = (
        file_paths.scope_folder(folder.target.base_folder, snapshot.gvr, snapshot.namespace) + "/"
    )
    candidates = await asyncio.to_thread(
        _orphan_candidates, folder.index, prefix, snapshot.live_paths
    )
    owned = _own_by_memory(folder, snapshot, candidates)
    owned |= await _own_by_content(
        folder, branch, snapshot, (path for path in candidates if path not in owned)
    )
    if path_ownership.needs_confirmation(list_empty=snapshot.is_empty, candidates=candidates):
        owned = await _confirm_candidates(owned, api)
    return [
        FileUpdate.removal(
            identity,
            snapshot.kind,
            path,
            snapshot.mask,
            received,
            reason=snapshot.excluded.get(path, ""),
        )
        for path, identity in owned.items()
    ]


async def find_uncovered(
    folder: Folder, branch: RemoteBranch, coverage: RuleCoverage | None, received: datetime
) -> list[FileUpdate]:
    """The removals of files that no rule covers any more (SNP-7)."""
    if coverage is None or not (folder.is_claimed or folder.was_claimed):
        return []
    base = folder.target.base_folder
    covered = {file_paths.scope_folder(base, *scope) for scope in coverage.scopes()}
    outside = await asyncio.to_thread(_files_outside, folder, covered)
    if not coverage.grace_expired:
        outside = [path for path in outside if path in folder.own_paths]
    contents = await _read_contents(folder, branch, outside)
    removals: list[FileUpdate] = []
    for path, obj in contents.items():
        located = path_ownership.locate_object(obj, path, base)
        if located is None or not coverage.may_contain(located[0].gvr, located[1]):
            continue
        if reason := coverage.removal_reason(*located):
            removals.append(
                FileUpdate.removal(*located, path, _ALL_OPERATIONS, received, reason=reason)
            )
    return removals


def _files_outside(folder: Folder, covered: Collection[str]) -> list[str]:
    """The files that could be ours and are outside of every covered scope."""
    return [
        path
        for path in folder.index
        if path.endswith(file_paths.EXTENSION)
        and path not in folder.irregular
        and not any(parent in covered for parent in path_ownership.parent_directories(path))
    ]


async def _confirm_candidates(owned: Mapping[str, Identity], api: Api) -> dict[str, Identity]:
    confirmed: dict[str, Identity] = {}
    for path, identity in owned.items():
        if await api.is_deleted(identity):
            confirmed[path] = identity
        await asyncio.sleep(CONFIRM_INTERVAL_SECONDS)
    return confirmed


def _own_by_memory(
    folder: Folder, snapshot: ScopeSnapshot, candidates: tuple[str, ...]
) -> dict[str, Identity]:
    """The candidates that this process wrote for objects that it tracked."""
    missing = {
        file_paths.file_path(folder.target.base_folder, identity): identity
        for identity in snapshot.missing
    }
    own_files = folder.own_paths - folder.irregular
    return {path: missing[path] for path in candidates if path in missing and path in own_files}


def _orphan_candidates(
    index: Mapping[str, str], prefix: str, live: frozenset[str]
) -> tuple[str, ...]:
    return path_ownership.orphan_candidates(
        (path for path in index if path.startswith(prefix)), live
    )


async def _own_by_content(
    folder: Folder, branch: RemoteBranch, snapshot: ScopeSnapshot, candidates: Iterable[str]
) -> dict[str, Identity]:
    """The candidates whose content names an object with exactly this path."""
    readable = [path for path in candidates if path not in folder.irregular]
    contents = await _read_contents(folder, branch, readable)
    return path_ownership.own_files(
        contents, snapshot.gvr, snapshot.kind, folder.target.base_folder
    )


async def find_occupied(
    folder: Folder, branch: RemoteBranch, updates: Iterable[FileUpdate]
) -> dict[str, Identity]:
    """SNP-10: paths of `updates` that foreign content occupies, with the objects they are for."""
    needed = {update.path: update for update in updates if update.blob is not None}
    modes = _entry_modes(folder, needed)
    entries = {path: path_ownership.path_entry(path, modes, folder.directories) for path in needed}
    unclaimed = [
        path for path, entry in entries.items() if entry == "file" and not folder.is_claimed
    ]
    contents = await _read_contents(folder, branch, unclaimed)
    return {
        path: needed[path].identity
        for path, entry in entries.items()
        if path_ownership.is_occupied(
            entry,
            claimed=folder.is_claimed,
            same_identity=path_ownership.holds_identity(
                contents.get(path), needed[path].identity, needed[path].kind
            ),
        )
    }


async def find_exposed(
    folder: Folder, branch: RemoteBranch, updates: Iterable[FileUpdate]
) -> list[FileUpdate]:
    """The updates whose file in Git shows values that the new content redacts (SEC-2).

    Only a snapshot can find such a file: what this process wrote itself is redacted.
    """
    suspects = [update for update in updates if update.redacted and update.observation is None]
    changed = [
        update
        for update in suspects
        if update.blob and folder.index.get(update.path) not in (None, update.blob)
    ]
    before = await _read_contents(folder, branch, [update.path for update in changed])
    stored = await branch.blobs(
        folder.target, [update.blob for update in changed if update.blob and update.content is None]
    )
    after = await asyncio.to_thread(
        lambda: [
            path_ownership.parse_file(update.content or stored.get(update.blob or ""))
            for update in changed
        ]
    )
    return [
        update
        for update, next_content in zip(changed, after, strict=True)
        if secret_redaction.reveals_plaintext(before[update.path], next_content)
    ]


_FILE_MODE = 0o100644
_LINK_MODE = 0o120000


def _entry_modes(folder: Folder, needed: Iterable[str]) -> dict[str, int]:
    """Modes of the entries at the needed paths and their parents; absent paths are left out."""
    candidates = {
        candidate
        for path in needed
        for candidate in (path, *path_ownership.parent_directories(path))
    }
    return {
        path: _LINK_MODE if path in folder.irregular else _FILE_MODE
        for path in candidates
        if path in folder.index
    }


async def _read_contents(
    folder: Folder, branch: RemoteBranch, paths: list[str]
) -> dict[str, Object | None]:
    """The object in each file; None for content that the strict reader refuses."""
    blobs = await branch.blobs(folder.target, [folder.index[path] for path in paths])
    content = {path: blobs.get(folder.index[path]) for path in paths}
    return await asyncio.to_thread(
        lambda: {path: path_ownership.parse_file(blob) for path, blob in content.items()}
    )
