"""Finds files whose object is gone or no rule covers, and paths that belong to somebody else.

A file is removed only if it is ours: this process wrote it for an object that it saw,
or its content names an object whose path is exactly this one (SNP-3). An empty answer of
the API server is no proof; then every candidate is asked for by name, in no hurry
(SNP-4). Only candidates of unknown origin are ever read from Git, and files of redacted
objects that a snapshot is about to rewrite: they may show what is redacted today (SEC-2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import datetime

from windlass.objects import yaml_reader
from windlass.objects.names import Identity, Object
from windlass.reverser import absence
from windlass.reverser.arrival import Arrival, Sweep
from windlass.reverser.branch import Branch
from windlass.reverser.decide import occupancy, paths, secrets, snapshot
from windlass.reverser.decide.selected import Selected
from windlass.reverser.decide.transition import OPERATIONS
from windlass.reverser.folder import Folder

_EVERY_OPERATION = frozenset(OPERATIONS)
ConfirmGone = Callable[[Identity], Awaitable[bool]]


async def orphans(
    folder: Folder, branch: Branch, sweep: Sweep, confirm: ConfirmGone, received: datetime
) -> list[Arrival]:
    """The removals that a complete snapshot proves; what stood there before any claim stays."""
    if not (folder.claimed or folder.held_before):
        return []
    prefix = paths.scope_folder(folder.target.base_folder, sweep.gvr, sweep.namespace) + "/"
    candidates = await asyncio.to_thread(_candidates, folder.index, prefix, sweep.live)
    owned = _written_for(folder, sweep, candidates)
    owned |= await _owned(folder, branch, sweep, (path for path in candidates if path not in owned))
    if snapshot.needs_confirmation(list_empty=sweep.empty, candidates=candidates):
        owned = await _confirmed(owned, confirm)
    return [
        Arrival.removal(
            identity, sweep.kind, path, sweep.mask, received, reason=sweep.aside.get(path, "")
        )
        for path, identity in owned.items()
    ]


async def uncovered(
    folder: Folder, branch: Branch, selected: Selected | None, received: datetime
) -> list[Arrival]:
    """The removals of files that no rule covers any more (SNP-7)."""
    if selected is None or not (folder.claimed or folder.held_before):
        return []
    base = folder.target.base_folder
    covered = {paths.scope_folder(base, *scope) for scope in selected.scopes()}
    outside = await asyncio.to_thread(_outside, folder, covered)
    if not selected.grown:
        outside = [path for path in outside if path in folder.written]
    contents = await _contents(folder, branch, outside)
    found: list[Arrival] = []
    for path, obj in contents.items():
        held = snapshot.located(obj, path, base)
        if held is None or not selected.may_hold(held[0].gvr, held[1]):
            continue
        if why := selected.leaves(*held):
            found.append(Arrival.removal(*held, path, _EVERY_OPERATION, received, reason=why))
    return found


def _outside(folder: Folder, covered: Collection[str]) -> list[str]:
    """The files that could be ours and lie in no covered scope's folder."""
    return [
        path
        for path in folder.index
        if path.endswith(paths.EXTENSION)
        and path not in folder.irregular
        and not any(parent in covered for parent in occupancy.parents(path))
    ]


async def _confirmed(owned: Mapping[str, Identity], confirm: ConfirmGone) -> dict[str, Identity]:
    found: dict[str, Identity] = {}
    for path, identity in owned.items():
        if await confirm(identity):
            found[path] = identity
        await asyncio.sleep(absence.QUESTION_SECONDS)
    return found


def _written_for(folder: Folder, sweep: Sweep, candidates: tuple[str, ...]) -> dict[str, Identity]:
    """The candidates that this process wrote, for objects that it saw alive."""
    named = {paths.file_path(folder.target.base_folder, one): one for one in sweep.missed}
    ours = folder.written - folder.irregular
    return {path: named[path] for path in candidates if path in named and path in ours}


def _candidates(index: Mapping[str, str], prefix: str, live: frozenset[str]) -> tuple[str, ...]:
    return snapshot.candidates((path for path in index if path.startswith(prefix)), live)


async def _owned(
    folder: Folder, branch: Branch, sweep: Sweep, candidates: Iterable[str]
) -> dict[str, Identity]:
    """The candidates whose content says that they belong exactly where they stand."""
    readable = [path for path in candidates if path not in folder.irregular]
    contents = await _contents(folder, branch, readable)
    found: dict[str, Identity] = {}
    for path, obj in contents.items():
        identity = snapshot.owner(obj, sweep.gvr, sweep.kind)
        if identity is not None and paths.file_path(folder.target.base_folder, identity) == path:
            found[path] = identity
    return found


async def occupied(
    folder: Folder, branch: Branch, arrivals: Iterable[Arrival]
) -> dict[str, Identity]:
    """Needed paths that hold something foreign (SNP-10)."""
    needed = {arrival.path: arrival for arrival in arrivals if arrival.blob is not None}
    modes = _modes(folder, needed)
    standing = {path: occupancy.standing(path, modes, folder.directories) for path in needed}
    unclaimed = [path for path, what in standing.items() if what == "file" and not folder.claimed]
    contents = await _contents(folder, branch, unclaimed)
    return {
        path: needed[path].identity
        for path, what in standing.items()
        if occupancy.occupied(
            what,
            claimed=folder.claimed,
            same_identity=snapshot.same_identity(
                contents.get(path), needed[path].identity, needed[path].kind
            ),
        )
    }


async def exposed(folder: Folder, branch: Branch, arrivals: Iterable[Arrival]) -> list[Arrival]:
    """Those whose file in Git shows values that its next content redacts.

    Only a snapshot can find such a file: what this process wrote itself is redacted.
    """
    suspects = [one for one in arrivals if one.redacted and one.observation is None]
    changed = [
        one for one in suspects if one.blob and folder.index.get(one.path) not in (None, one.blob)
    ]
    before = await _contents(folder, branch, [one.path for one in changed])
    stowed = await branch.blobs(
        folder.target, [one.blob for one in changed if one.blob and one.content is None]
    )
    after = await asyncio.to_thread(
        lambda: [_read(one.content or stowed.get(one.blob or "")) for one in changed]
    )
    return [
        one
        for one, content in zip(changed, after, strict=True)
        if secrets.reveals(before[one.path], content)
    ]


_FILE = 0o100644
_LINK = 0o120000


def _modes(folder: Folder, needed: Iterable[str]) -> dict[str, int]:
    """What stands at the needed paths and above them; nothing else is looked at."""
    near = {place for path in needed for place in (path, *occupancy.parents(path))}
    return {
        path: _LINK if path in folder.irregular else _FILE for path in near if path in folder.index
    }


async def _contents(folder: Folder, branch: Branch, wanted: list[str]) -> dict[str, Object | None]:
    """The one object that each file holds; None for whatever a strict reader refuses."""
    blobs = await branch.blobs(folder.target, [folder.index[path] for path in wanted])
    present = {path: blobs.get(folder.index[path]) for path in wanted}
    return await asyncio.to_thread(lambda: {path: _read(blob) for path, blob in present.items()})


def _read(content: bytes | None) -> Object | None:
    if content is None:
        return None
    try:
        value = yaml_reader.read(content)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
