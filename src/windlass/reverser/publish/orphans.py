"""Finds files whose object is gone or that no rule covers, and paths that hold foreign content.

A file is removed only if it is ours: this process wrote it for an object that it observed,
or its content names an object whose path is exactly this one (SNP-3). An empty answer of
the API server is not proof; then every candidate is requested by name, rate limited
(SNP-4). Only candidates of unknown origin are ever read from Git, and files of redacted
objects that a snapshot is about to rewrite: they may show what is redacted today (SEC-2).

Proof of a deletion is only the answer that an object of that name does not exist: a
type that is not served answers 404 too, but names no object, and every other answer
proves nothing at all (SNP-4).
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
    sweep: ScopeSnapshot,
    confirm: ConfirmGone,
    received: datetime,
) -> list[FileUpdate]:
    """The removals that a complete snapshot proves; what stood there before any claim stays."""
    if not (folder.is_claimed or folder.was_claimed):
        return []
    prefix = file_paths.scope_folder(folder.target.base_folder, sweep.gvr, sweep.namespace) + "/"
    candidates = await asyncio.to_thread(_orphan_candidates, folder.index, prefix, sweep.live_paths)
    owned = _own_by_memory(folder, sweep, candidates)
    owned |= await _own_by_content(
        folder, branch, sweep, (path for path in candidates if path not in owned)
    )
    if path_ownership.needs_confirmation(list_empty=sweep.is_empty, candidates=candidates):
        owned = await _confirm_candidates(owned, confirm)
    return [
        FileUpdate.removal(
            identity, sweep.kind, path, sweep.mask, received, reason=sweep.excluded.get(path, "")
        )
        for path, identity in owned.items()
    ]


async def find_uncovered(
    folder: Folder, branch: RemoteBranch, selected: RuleCoverage | None, received: datetime
) -> list[FileUpdate]:
    """The removals of files that no rule covers any more (SNP-7)."""
    if selected is None or not (folder.is_claimed or folder.was_claimed):
        return []
    base = folder.target.base_folder
    covered = {file_paths.scope_folder(base, *scope) for scope in selected.scopes()}
    outside = await asyncio.to_thread(_files_outside, folder, covered)
    if not selected.grace_expired:
        outside = [path for path in outside if path in folder.own_paths]
    contents = await _read_contents(folder, branch, outside)
    found: list[FileUpdate] = []
    for path, obj in contents.items():
        held = path_ownership.locate_object(obj, path, base)
        if held is None or not selected.may_contain(held[0].gvr, held[1]):
            continue
        if why := selected.removal_reason(*held):
            found.append(FileUpdate.removal(*held, path, _ALL_OPERATIONS, received, reason=why))
    return found


def _files_outside(folder: Folder, covered: Collection[str]) -> list[str]:
    """The files that could be ours and lie in no covered scope's folder."""
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
    found: dict[str, Identity] = {}
    for path, identity in owned.items():
        if await confirm(identity):
            found[path] = identity
        await asyncio.sleep(CONFIRM_INTERVAL_SECONDS)
    return found


def _own_by_memory(
    folder: Folder, sweep: ScopeSnapshot, candidates: tuple[str, ...]
) -> dict[str, Identity]:
    """The candidates that this process wrote, for objects that it saw alive."""
    named = {file_paths.file_path(folder.target.base_folder, one): one for one in sweep.missing}
    ours = folder.own_paths - folder.irregular
    return {path: named[path] for path in candidates if path in named and path in ours}


def _orphan_candidates(
    index: Mapping[str, str], prefix: str, live: frozenset[str]
) -> tuple[str, ...]:
    return path_ownership.orphan_candidates(
        (path for path in index if path.startswith(prefix)), live
    )


async def _own_by_content(
    folder: Folder, branch: RemoteBranch, sweep: ScopeSnapshot, candidates: Iterable[str]
) -> dict[str, Identity]:
    """The candidates whose content says that they belong exactly where they stand."""
    readable = [path for path in candidates if path not in folder.irregular]
    contents = await _read_contents(folder, branch, readable)
    found: dict[str, Identity] = {}
    for path, obj in contents.items():
        identity = path_ownership.stored_identity(obj, sweep.gvr, sweep.kind)
        if (
            identity is not None
            and file_paths.file_path(folder.target.base_folder, identity) == path
        ):
            found[path] = identity
    return found


async def find_occupied(
    folder: Folder, branch: RemoteBranch, arrivals: Iterable[FileUpdate]
) -> dict[str, Identity]:
    """Needed paths that hold something foreign (SNP-10)."""
    needed = {arrival.path: arrival for arrival in arrivals if arrival.blob is not None}
    modes = _entry_modes(folder, needed)
    standing = {path: path_ownership.path_entry(path, modes, folder.directories) for path in needed}
    unclaimed = [
        path for path, what in standing.items() if what == "file" and not folder.is_claimed
    ]
    contents = await _read_contents(folder, branch, unclaimed)
    return {
        path: needed[path].identity
        for path, what in standing.items()
        if path_ownership.is_occupied(
            what,
            claimed=folder.is_claimed,
            same_identity=path_ownership.holds_identity(
                contents.get(path), needed[path].identity, needed[path].kind
            ),
        )
    }


async def find_exposed(
    folder: Folder, branch: RemoteBranch, arrivals: Iterable[FileUpdate]
) -> list[FileUpdate]:
    """Those whose file in Git shows values that its next content redacts.

    Only a snapshot can find such a file: what this process wrote itself is redacted.
    """
    suspects = [one for one in arrivals if one.redacted and one.observation is None]
    changed = [
        one for one in suspects if one.blob and folder.index.get(one.path) not in (None, one.blob)
    ]
    before = await _read_contents(folder, branch, [one.path for one in changed])
    stowed = await branch.blobs(
        folder.target, [one.blob for one in changed if one.blob and one.content is None]
    )
    after = await asyncio.to_thread(
        lambda: [_parse_object(one.content or stowed.get(one.blob or "")) for one in changed]
    )
    return [
        one
        for one, content in zip(changed, after, strict=True)
        if secret_redaction.reveals_plaintext(before[one.path], content)
    ]


_FILE_MODE = 0o100644
_LINK_MODE = 0o120000


def _entry_modes(folder: Folder, needed: Iterable[str]) -> dict[str, int]:
    """What stands at the needed paths and above them; nothing else is looked at."""
    near = {place for path in needed for place in (path, *path_ownership.parent_directories(path))}
    return {
        path: _LINK_MODE if path in folder.irregular else _FILE_MODE
        for path in near
        if path in folder.index
    }


async def _read_contents(
    folder: Folder, branch: RemoteBranch, wanted: list[str]
) -> dict[str, Object | None]:
    """The one object that each file holds; None for whatever a strict reader refuses."""
    blobs = await branch.blobs(folder.target, [folder.index[path] for path in wanted])
    present = {path: blobs.get(folder.index[path]) for path in wanted}
    return await asyncio.to_thread(
        lambda: {path: _parse_object(blob) for path, blob in present.items()}
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
"""The least time between two questions of one asker."""


async def confirm_deleted(api: Api, identity: Identity) -> bool:
    """Whether the API server says in so many words that the object does not exist."""
    try:
        await api.get(identity.gvr, identity.name, identity.namespace)
    except ApiError as error:
        return is_deletion_proof(error, identity)
    return False


def is_deletion_proof(error: ApiError, identity: Identity) -> bool:
    """Whether an answer is that proof."""
    return isinstance(error, NotFound) and f'"{identity.name}" not found' in error.message
