"""Finds files whose object is gone, and paths that belong to somebody else.

A file is removed only if it is ours: this process wrote it, it is the path of a live
object, or its content names an object whose path is exactly this one (SNP-3). An
empty answer of the API server is no proof; then every candidate is asked for by name
(SNP-4). Only candidates are ever read from Git.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime

from windlass.objects import yaml_reader
from windlass.objects.gvr import GVK
from windlass.objects.identity import Identity
from windlass.objects.json import Object
from windlass.reverser.arrival import Arrival, Sweep
from windlass.reverser.branch import Branch
from windlass.reverser.decide import occupancy, paths, snapshot
from windlass.reverser.folder import Folder

ConfirmGone = Callable[[Identity], Awaitable[bool]]


async def orphans(
    folder: Folder, branch: Branch, sweep: Sweep, confirm: ConfirmGone, received: datetime
) -> list[Arrival]:
    """The removals that a complete snapshot proves; what stood there before any claim stays."""
    if not (folder.claimed or folder.held_before):
        return []
    prefix = paths.scope_folder(folder.target.base_folder, sweep.gvr, sweep.namespace) + "/"
    candidates = await asyncio.to_thread(_candidates, folder.index, prefix, sweep.live)
    owned = await _owned(folder, branch, sweep, candidates)
    doubtful = snapshot.needs_confirmation(list_empty=sweep.empty, candidates=candidates)
    return [
        Arrival(identity, sweep.kind, path, None, None, sweep.mask, None, received)
        for path, identity in owned.items()
        if not doubtful or await confirm(identity)
    ]


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
        subject = snapshot.subject(obj) if obj is not None else None
        if subject is None or subject[0] != _gvk(sweep):
            continue
        identity = Identity(sweep.gvr, subject[1].namespace, subject[1].name)
        if paths.file_path(folder.target.base_folder, identity) == path:
            found[path] = identity
    return found


def _gvk(sweep: Sweep) -> GVK:
    return GVK(sweep.gvr.group, sweep.gvr.version, sweep.kind)


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
