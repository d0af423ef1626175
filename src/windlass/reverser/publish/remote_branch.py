"""The remote branch that commits are built on, in a disposable bare store.

| Remote | Base of the next commit | Expected by the push |
|---|---|---|
| branch exists | its tip | its tip |
| no refs at all | none: a root commit | absence |
| branch missing, createBranch | tip of the default branch | absence |
| branch missing | BranchNotFound | - |

Owned by one branch worker. The store is only a cache: damage of any kind ends in deleting it and
fetching again, and so does the clutter that accumulates with the commits.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

from windlass.base.errors import Stalled
from windlass.git.format import objects, refs
from windlass.git.format.objects import TreeEntry
from windlass.git.format.refs import RefListing
from windlass.git.store import Entry, Store
from windlass.reverser.publish.folder import WriteTarget
from windlass.sources.git_service import GitService

_FETCH_DEPTHS = (50, 1000, 20_000)
"""How far a shallow store is deepened, in commits, to find the last pushed commit."""

_CLUTTER_LIMIT = 20_000

BranchMove = Literal["same", "moved", "rewound"]


class RemoteBranch:
    """One branch of one remote as of the last refresh or push."""

    def __init__(self, name: str, directory: Path, git: GitService) -> None:
        self.name = name
        # Commit that the next one is built on; None for a root commit.
        self.base: str | None = None
        # Tip that the next push expects at the branch; None: the branch must not exist.
        self.expected: str | None = None
        # Whether base and expected are valid; False until a refresh, and without a store.
        self.is_known = False
        # A listing showed another tip than the last one we know; refresh before writing.
        self.may_have_moved = False
        # Last tip that the server acknowledged to this process.
        self.last_pushed: str | None = None
        self._directory = directory
        self._git = git.git
        self._listings = git.listings
        # Opened by the first refresh, and again after it was discarded.
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        """The open store; only after a refresh."""
        assert self._store is not None, "the branch was not refreshed"
        return self._store

    async def refresh(self, target: WriteTarget) -> BranchMove:
        """List the remote's refs and fetch what is new; returns how the base moved."""
        listing = await self._listings.get(target.remote, target.credentials, max_age_seconds=0.0)
        expected, ref = self._resolve_base(listing, target)
        base = listing.refs[ref] if ref is not None else None
        if self.is_known and (base, expected) == (self.base, self.expected):
            return "same"
        base = await self._fetch(target, ref)
        rewound = (
            ref is not None and expected is not None and await self._is_rewound(target, ref, base)
        )
        # Another writer may have pushed between the listing and the fetch: the fetch decides.
        self.base, self.expected = base, base if expected is not None else None
        self.is_known = True
        return "rewound" if rewound else "moved"

    async def _is_rewound(self, target: WriteTarget, ref: str, tip: str | None) -> bool:
        """Whether the last pushed commit is not in the history of `tip`."""
        if self.last_pushed is None or tip is None:
            return False
        for depth in _FETCH_DEPTHS:
            if await asyncio.to_thread(self.store.contains, tip, self.last_pushed):
                return False
            if await asyncio.to_thread(self.store.is_complete, tip):
                break
            await self.store.fetch(self._git, target.remote, target.credentials, ref, depth=depth)
        return not await asyncio.to_thread(self.store.contains, tip, self.last_pushed)

    def _resolve_base(
        self, listing: RefListing, target: WriteTarget
    ) -> tuple[str | None, str | None]:
        """The tip that the push expects, and the ref to build on (see the table above)."""
        if listing.object_format != "sha1":
            raise Stalled(
                "UnsupportedObjectFormat",
                f"{target.remote.display} uses {listing.object_format} object ids; "
                "only SHA-1 is supported",
            )
        ref = refs.branch_ref(self.name)
        if ref in listing.refs:
            return listing.refs[ref], ref
        if not listing.refs:
            return None, None
        if target.create_branch and listing.default_branch is not None:
            return None, refs.branch_ref(listing.default_branch)
        raise Stalled(
            "BranchNotFound",
            f"branch {self.name} not found in {target.remote.display}; create it, or set "
            "spec.createBranch to start it from the default branch",
        )

    async def _fetch(self, target: WriteTarget, ref: str | None) -> str | None:
        store = await self._open_store()
        if ref is None:
            return None
        return await store.fetch(self._git, target.remote, target.credentials, ref)

    async def _open_store(self) -> Store:
        if self._store is None:
            self._store = await asyncio.to_thread(Store.open, self._directory)
        return self._store

    async def discard_store(self) -> None:
        """Delete the store; everything in it can be fetched again."""
        if self._store is not None:
            await asyncio.to_thread(self._store.discard)
        self._store, self.is_known = None, False

    async def is_cluttered(self) -> bool:
        """Whether the store holds so much that fetching it again is cheaper."""
        return await asyncio.to_thread(self.store.clutter) > _CLUTTER_LIMIT

    def tree_at(self, folder: str) -> str | None:
        """The tree id of a folder on the base; None if it has no such directory."""
        located = self._entry_at(self.base, folder)
        return located[1].id if located is not None and located[1].is_directory else None

    def is_same(self, folder: str, before: str | None) -> bool:
        """Whether the base has at `folder` exactly what the commit `before` had."""
        # A shallow store may lack the commit; then nothing can be compared.
        if before is not None and not self.store.has(before):
            return False
        return self._entry_at(before, folder) == self._entry_at(self.base, folder)

    def _entry_at(self, commit: str | None, folder: str) -> tuple[str, TreeEntry] | None:
        """The entry at `folder`, or a non-directory at one of its parents; with its path."""
        tree = self.store.tree_of(commit) if commit is not None else objects.EMPTY_TREE
        path = ""
        entry = None
        for name in folder.split("/"):
            path = f"{path}/{name}" if path else name
            entry = self.store.read_tree(tree).get(name.encode())
            if entry is None:
                return None
            if not entry.is_directory:
                break
            tree = entry.id
        return (path, entry) if entry is not None else None

    async def entries(self, folder: str) -> dict[str, Entry]:
        """Every file below `folder`, or the non-directory that occupies it or a parent."""
        if self.base is None:
            return {}
        return await asyncio.to_thread(self._entries, self.base, folder)

    def _entries(self, base: str, folder: str) -> dict[str, Entry]:
        entries = self.store.tree_entries(base, folder)
        occupant = self._entry_at(base, folder)
        if not entries and occupant is not None and not occupant[1].is_directory:
            path, entry = occupant
            return {path: Entry(entry.mode, entry.id)}
        return entries

    async def blobs(self, target: WriteTarget, ids: list[str]) -> dict[str, bytes]:
        """The content of blobs by id; those that the store lacks are fetched."""
        if not ids:
            return {}
        return await self.store.read_blobs(self._git, target.remote, target.credentials, ids)

    def set_tip(self, tip: str) -> None:
        """Move to a tip that another writer pushed and that the store holds."""
        self.base = self.expected = tip

    def acknowledge_push(self, commit: str) -> None:
        """Move to `commit`, which the server acknowledged as the new tip."""
        self.base = self.expected = self.last_pushed = commit
