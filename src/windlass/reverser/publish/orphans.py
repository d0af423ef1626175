"""Finds files whose object is gone or that no rule covers, and paths that hold foreign content.

Called by `batch_builder` when a window closes. A file is removed only if it is ours: this
process wrote it for an object that it observed, or its content names an object whose path is
exactly this one (SNP-3). An empty list is not proof; then every candidate is requested by name,
rate limited (SNP-4). Only candidates of unknown origin are ever read from Git, and files of
redacted objects that a snapshot is about to rewrite: they may show what is redacted today
(SEC-2).

Proof of a deletion is only the answer that an object of that name does not exist: the 404 of a
type that is not served names no object, and every other answer proves nothing at all (SNP-4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import datetime

from windlass.kube.api import Api
from windlass.kube.errors import ApiError, NotFound
from windlass.objects import yaml_reader
from windlass.objects.names import Identity, Object
from windlass.reverser.content import file_paths, secret_redaction
from windlass.reverser.file_operation import OPERATIONS
from windlass.reverser.publish import path_ownership
from windlass.reverser.publish.file_update import FileUpdate, ScopeSnapshot
from windlass.reverser.publish.folder import Folder
from windlass.reverser.publish.remote_branch import RemoteBranch
from windlass.reverser.selection.rule_coverage import RuleCoverage

_ALL_OPERATIONS = frozenset(OPERATIONS)
ConfirmGone = Callable[[Identity], Awaitable[bool]]


async def find_orphans(
    folder: Folder,
    branch: RemoteBranch,
    snapshot: ScopeSnapshot,
    confirm: ConfirmGone,
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
        owned = await _confirm_candidates(owned, confirm)
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


async def _confirm_candidates(
    owned: Mapping[str, Identity], confirm: ConfirmGone
) -> dict[str, Identity]:
    confirmed: dict[str, Identity] = {}
    for path, identity in owned.items():
        if await confirm(identity):
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
    owned: dict[str, Identity] = {}
    for path, obj in contents.items():
        identity = path_ownership.stored_identity(obj, snapshot.gvr, snapshot.kind)
        if (
            identity is not None
            and file_paths.file_path(folder.target.base_folder, identity) == path
        ):
            owned[path] = identity
    return owned


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
            _parse_object(update.content or stored.get(update.blob or "")) for update in changed
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
        lambda: {path: _parse_object(blob) for path, blob in content.items()}
    )


def _parse_object(content: bytes | None) -> Object | None:
    if content is None:
        return None
    try:
        value = yaml_reader.read(content)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


CONFIRM_INTERVAL_SECONDS = 1 / 50
"""The least time between two GET requests that confirm deletions."""


async def confirm_deleted(api: Api, identity: Identity) -> bool:
    """Whether the API server answers that exactly this object does not exist."""
    try:
        await api.get(identity.gvr, identity.name, identity.namespace)
    except ApiError as error:
        return is_deletion_proof(error, identity)
    return False


def is_deletion_proof(error: ApiError, identity: Identity) -> bool:
    """Whether an error is that answer and not the 404 of a type that is not served."""
    return isinstance(error, NotFound) and f'"{identity.name}" not found' in error.message
