"""A bare store that gets exactly one commit at a time, and of it only what is needed.

| Step        | What comes                                              | Our ref          |
|-------------|---------------------------------------------------------|------------------|
| `fetch`     | the commit and its directories, by id, one deep         | none             |
| `need`      | blobs by their ids, at most 500 in one call             | none             |
| `keep`      | nothing                                                 | on the commit    |

The ref comes last: a server that is told of a commit believes that we have all of it.
Nothing here is ever fetched by a read; what is not there is an error. A server that
refuses ids or filters is asked for everything instead, into an empty store, because a
partial one must not claim to be whole.

The store is disposable. What is corrupt or too large is discarded and fetched once more
into the empty store; only if that fails too is it somebody's problem. The last commits
that were kept stay, older ones go when the store is more than half full. Methods that
are not `async` read or write the disk and belong in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from windlass.base import failpoint
from windlass.git import rebuild, store_limits, trees
from windlass.git.credentials import ANONYMOUS, Credentials
from windlass.git.errors import GitError, StoreCorrupt
from windlass.git.fetch import EVERYTHING, NO_BLOBS, Fetcher
from windlass.git.fetch_by_id import FetchById, FilterRefused, IdsRefused
from windlass.git.format import refs
from windlass.git.format.remote import Remote
from windlass.git.runner import Git
from windlass.git.store import Entry, Store
from windlass.git.trees import FileChange

STREAM_FROM_BYTES = 8 * 1024 * 1024
RETAINED_TARGETS = 3
BATCH = 500

_MOST_PACKS = 200
_TARGETS = "refs/windlass/targets/"
_SHA1_CHARS = 40
_BEGIN_AGAIN = frozenset({"Corrupt", "StoreCorrupt", "TooLarge"})
_LIMITS = (
    ("core.bigFileThreshold", "8m"),
    ("core.deltaBaseCacheLimit", "16m"),
    ("pack.deltaCacheSize", "16m"),
    ("fetch.unpackLimit", "1"),
)


@dataclass(frozen=True, slots=True)
class RemoteSource:
    """Where commits come from, and what proves to it who we are."""

    remote: Remote
    credentials: Credentials = ANONYMOUS


@dataclass(frozen=True, slots=True)
class _Order:
    """What is to be had: `ref` is a name that led to `wanted`, for servers that need one."""

    source: RemoteSource
    wanted: str
    ref: str
    whole: bool
    by_name: bool = False


class CommitStore:
    """One such store; it never takes more than `cap_bytes` of the disk."""

    def __init__(self, git: Git, store: Store, *, cap_bytes: int) -> None:
        self._git = store_limits.limit_file_size(git, cap_bytes)
        self._store = store
        self._cap_bytes = cap_bytes
        self._order: _Order | None = None
        self._needed: dict[str, None] = {}
        self._is_suspect = False
        self._rebuilt_bytes = 0
        self._turn = asyncio.Lock()

    @classmethod
    def open(cls, git: Git, directory: Path, *, cap_bytes: int) -> CommitStore:
        """The store in `directory`, or a new one where there is none that can be trusted."""
        return cls(git, Store.open(directory), cap_bytes=cap_bytes)

    def close(self) -> None:
        """Let go of the files, before the same directory is opened again."""
        self._store.close()

    @property
    def directory(self) -> Path:
        return self._store.directory

    def allow(self, fetch_seconds: float) -> None:
        """How long one call may take from now on."""
        settings = replace(self._git.settings, fetch_timeout_seconds=fetch_seconds)
        self._git = self._git.under(settings)

    async def fetch(
        self, source: RemoteSource, wanted: str, *, ref: str = "", whole: bool = False
    ) -> str:
        """Get the commit `wanted` (or that the tag of this id marks); its id.

        A commit that is here costs no call. `whole` brings all blobs along.
        """
        if not refs.is_object_id(wanted) or len(wanted) != _SHA1_CHARS:
            raise GitError("UnsupportedObjectFormat", "a commit is named by a full SHA-1 id")
        async with self._turn:
            self._order, self._needed = _Order(source, wanted, ref, whole), {}
            await self._make_room(wanted)
            return await self._obtain(self._order)

    async def need(self, blobs: Iterable[str]) -> None:
        """Get those of `blobs` that are not here; they belong to the commit last fetched."""
        async with self._turn:
            if self._order is None:
                raise ValueError("fetch a commit before its blobs")
            self._needed.update(dict.fromkeys(blobs))
            await self._obtain(self._order)

    def keep(self, commit: str) -> None:
        """Note a commit, whose blobs are in, as one of the last targets."""
        with self._trusting():
            noted = sorted(self._store.refs(_TARGETS).items())
            if noted and noted[-1][1] == commit:
                return
            number = int(noted[-1][0].removeprefix(_TARGETS)) + 1 if noted else 0
            failpoint.reach("git.exact.keep.before")
            self._store.note(f"{_TARGETS}{number:010d}", commit)
            failpoint.reach("git.exact.keep.after")
            others = [name for name, target in noted if target != commit]
            stale = {name for name, _ in noted}.difference(others[-(RETAINED_TARGETS - 1) :])
            for name in stale:
                self._store.drop_refs(name)

    def targets(self) -> tuple[str, ...]:
        """The commits kept last, the newest first."""
        with self._trusting():
            noted = sorted(self._store.refs(_TARGETS).items(), reverse=True)
            return tuple(commit for _, commit in noted)

    def tree_of(self, commit: str) -> str:
        with self._trusting():
            return self._store.tree_of(commit)

    def committed_at(self, commit: str) -> int:
        """When a commit was made, in seconds since 1970."""
        with self._trusting():
            return self._store.committed_at(commit)

    def author_of(self, commit: str) -> str:
        """The name of who wrote a commit, as the commit says it."""
        with self._trusting():
            return self._store.author_of(commit)

    def listing(self, commit: str, folder: str = "") -> dict[str, Entry]:
        """Every file below `folder` by its path from the root."""
        with self._trusting():
            return self._store.tree_entries(commit, folder)

    def diff(self, old: str, new: str) -> dict[str, FileChange]:
        """The files that differ between two commits, by their path."""
        with self._trusting():
            return trees.changed_files(
                self._store, self._store.tree_of(old), self._store.tree_of(new)
            )

    def missing(self, blobs: Iterable[str]) -> list[str]:
        """Those of `blobs` that are not here."""
        with self._trusting():
            return self._store.missing(blobs)

    def size(self, blob: str) -> int:
        """How many bytes a blob that is here has."""
        with self._trusting():
            return self._store.blob_size(blob)

    def is_large(self, blob: str) -> bool:
        """Whether a blob should be streamed instead of read."""
        return self.size(blob) > STREAM_FROM_BYTES

    def read(self, blob: str) -> bytes:
        """A blob that is here, proven by its id; it is in memory as a whole."""
        with self._trusting():
            return self._store.read_blob(blob)

    async def stream(self, blob: str, sink: Callable[[bytes], object]) -> int:
        """Give a blob to `sink` piece by piece, in a thread; its size.

        The id proves the content only when this returns: until then nobody may use it.
        """
        size = await asyncio.to_thread(self.size, blob)
        digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)

        def pass_on(piece: bytes) -> None:
            digest.update(piece)
            sink(piece)

        await self._git.run(
            ["cat-file", "blob", blob],
            cwd=self.directory,
            deadline_seconds=self._git.settings.fetch_timeout_seconds,
            config=_LIMITS,
            sink=pass_on,
        )
        if digest.hexdigest() != blob:
            self._is_suspect = True
            raise StoreCorrupt(f"the store's object {blob} is not what its name says")
        return size

    async def _obtain(self, order: _Order) -> str:
        """The commit and what is needed of it; begins again where that can help."""
        if self._is_suspect:
            await self._discard()
        while True:
            was_empty = await asyncio.to_thread(self._is_empty)
            try:
                return await store_limits.run_within(
                    self._cap_bytes, self.directory, self._attempt(order)
                )
            except GitError as error:
                order = await self._changed_order(order, error, was_empty=was_empty)

    async def _changed_order(self, order: _Order, error: GitError, *, was_empty: bool) -> _Order:
        """What to try next after a failure that another try may avoid; raises all others."""
        if isinstance(error, IdsRefused | FilterRefused) and not order.whole:
            self._order = replace(order, whole=True, by_name=isinstance(error, IdsRefused))
            return self._order
        if error.reason not in _BEGIN_AGAIN:
            raise error
        await self._discard()
        if was_empty:
            reason = "TooLarge" if error.reason == "TooLarge" else "Corrupt"
            raise GitError(reason, error.message) from error
        return order

    async def _attempt(self, order: _Order) -> str:
        getting = FetchById(self._store, self._fetching(order))
        if order.whole and await asyncio.to_thread(rebuild.is_partial, self.directory):
            await self._discard()
        commit = await self._commit(order, getting)
        missing = await asyncio.to_thread(self._store.missing, self._needed)
        if missing and not order.whole:
            for start in range(0, len(missing), BATCH):
                await getting.blobs(missing[start : start + BATCH])
            missing = await asyncio.to_thread(self._store.missing, missing)
        if missing:
            raise GitError("Corrupt", f"{commit} came without its blob {missing[0]}")
        return commit

    async def _commit(self, order: _Order, getting: FetchById) -> str:
        if await asyncio.to_thread(self._store.has, order.wanted):
            return await asyncio.to_thread(getting.peeled, order.wanted)
        if not order.by_name:
            try:
                return await getting.by_id(order.wanted)
            except IdsRefused:
                if not order.whole:
                    raise
        return await getting.by_name(order.wanted, order.ref)

    def _fetching(self, order: _Order) -> Fetcher:
        return Fetcher(
            self._git,
            self.directory,
            order.source.remote,
            order.source.credentials,
            filter=EVERYTHING if order.whole else NO_BLOBS,
            limits=_LIMITS,
        )

    async def _make_room(self, wanted: str) -> None:
        """Drop what no target needs, where the store is half full or in many pieces."""
        size, packs = await asyncio.to_thread(self._measured)
        grown = size > self._cap_bytes // 2 and size > self._rebuilt_bytes * 5 // 4
        if not grown and packs <= _MOST_PACKS:
            return
        held = await asyncio.to_thread(self._store.has, wanted)
        roots = [*await asyncio.to_thread(self.targets), *([wanted] if held else [])]
        await self._rebuild(roots, self._cap_bytes - size)
        self._rebuilt_bytes, _ = await asyncio.to_thread(self._measured)

    async def _rebuild(self, roots: list[str], room_bytes: int) -> None:
        """What cannot be rebuilt is fetched anew: a store holds nothing that is only here."""
        if roots:
            try:
                await rebuild.rebuild(self._git, self._store, roots, room_bytes)
            except GitError:
                await self._discard()
        else:
            await self._discard()

    def _measured(self) -> tuple[int, int]:
        packs = (self.directory / "objects" / "pack").glob("*.pack")
        return store_limits.directory_bytes(self.directory), sum(1 for _ in packs)

    def _is_empty(self) -> bool:
        objects = self.directory / "objects"
        return not any(objects.glob("pack/*.pack")) and not any(objects.glob("??/*"))

    async def _discard(self) -> None:
        await asyncio.to_thread(self._store.discard)
        self._is_suspect = False

    @contextlib.contextmanager
    def _trusting(self) -> Iterator[None]:
        """Around reads: after one that failed, the next fetch begins with an empty store."""
        try:
            yield
        except StoreCorrupt:
            self._is_suspect = True
            raise
