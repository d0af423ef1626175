"""Rebuilds a partial store from the commits that are still needed.

`git gc` does not work on partial stores, so what stays is packed into a new repository in the same
directory, which then replaces the old one. Nothing is requested from the remote. A crash in between
leaves either store, or none: all of them are valid states.
"""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import pygit2

from windlass.base import failpoint
from windlass.git import store_health, store_limits
from windlass.git.errors import GitError
from windlass.git.runner import Git
from windlass.git.store import Store

_SHALLOW = "shallow"


async def rebuild(git: Git, store: Store, roots: Sequence[str], room_bytes: int) -> None:
    """Keep what is stored of `roots` and the refs to them; drop the rest.

    The new store may take `room_bytes` while both exist; GitError where that is too little, and
    the old one stays.
    """
    new = store.directory.with_name(f".{store.directory.name}.{uuid.uuid4().hex}")
    try:
        await asyncio.to_thread(_prepare, new)
        await _pack(git, store.directory, new, roots, room_bytes)
        await asyncio.to_thread(_complete, store, new, roots)
        failpoint.reach("git.rebuild.before")
        await asyncio.to_thread(store.replace, new)
        failpoint.reach("git.rebuild.after")
    finally:
        await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)


def is_partial(directory: Path) -> bool:
    """Whether a fetch into the store left out objects."""
    return any((directory / "objects" / "pack").glob("*.promisor"))


def _prepare(new: Path) -> None:
    with store_health.translate_store_errors():
        new.mkdir(mode=0o700)
        pygit2.init_repository(str(new), bare=True).free()


async def _pack(git: Git, old: Path, new: Path, roots: Sequence[str], room_bytes: int) -> None:
    if room_bytes <= 0:
        raise GitError("TooLarge", "not enough space to rebuild the git store")
    await store_limits.limit_file_size(git, room_bytes).run(
        # Existing deltas are reused; searching for better ones would take minutes.
        ["pack-objects", "--quiet", "--revs", "--missing=allow-any", "--window=0",
         "--delta-base-offset", str(new / "objects" / "pack" / "pack")],
        cwd=old,
        deadline_seconds=git.settings.fetch_timeout_seconds,
        stdin="".join(f"{root}\n" for root in roots).encode(),
    )  # fmt: skip


def _complete(store: Store, new: Path, roots: Sequence[str]) -> None:
    """Write promisor files, shallow boundary and refs of the new store."""
    with store_health.translate_store_errors():
        if is_partial(store.directory):
            for pack in (new / "objects" / "pack").glob("*.pack"):
                pack.with_suffix(".promisor").touch()
        repository = pygit2.Repository(str(new))
        _copy_boundary(store.directory, new, repository)
        _copy_refs(store.refs("refs/windlass/"), repository, frozenset(roots))
        repository.free()


def _copy_boundary(old: Path, new: Path, repository: pygit2.Repository) -> None:
    """Copy the shallow boundary: commits whose parents are left out on purpose."""
    try:
        listed = (old / _SHALLOW).read_text().split()
    except FileNotFoundError:
        return
    held = [line for line in listed if pygit2.Oid(hex=line) in repository.odb]
    if held:
        (new / _SHALLOW).write_text("".join(f"{line}\n" for line in held))


def _copy_refs(
    refs: Mapping[str, str], repository: pygit2.Repository, roots: frozenset[str]
) -> None:
    for name, identifier in refs.items():
        if identifier in roots:
            repository.references.create(name, pygit2.Oid(hex=identifier))
