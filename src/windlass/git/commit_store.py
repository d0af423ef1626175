"""Bare store that fetches exactly one commit at a time, and of it only what is needed.

| Step        | What is fetched                                         | Our ref          |
|-------------|---------------------------------------------------------|------------------|
| `fetch`     | the commit and its directories, by id, depth 1          | none             |
| `need`      | blobs by their ids, at most 500 in one call             | none             |
| `keep`      | nothing                                                 | on the commit    |

The ref comes last: a server that is offered a commit assumes that we have all of it. A read never
fetches; a missing object is an error. A server that refuses ids or filters is asked for everything
instead, into an empty store, because a partial one must not claim to be complete.

The store is disposable. One that is corrupt or too large is discarded and fetched once more into
the empty store; only if that fails too is the error raised. The last commits that were kept stay,
older ones go when the store is more than half full. Methods that are not `async` read or write
the disk and belong in a thread. The gateway agent and the environments controller use it.
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

_MAX_PACKS = 200
_TARGETS = "refs/windlass/targets/"
_SHA1_CHARS = 40
_REFETCH_REASONS = frozenset({"Corrupt", "StoreCorrupt", "TooLarge"})
_LIMITS = (
    ("core.bigFileThreshold", "8m"),
    ("core.deltaBaseCacheLimit", "16m"),
    ("pack.deltaCacheSize", "16m"),
    ("fetch.unpackLimit", "1"),
)


@dataclass(frozen=True, slots=True)
class RemoteSource:
    """A remote, and the credentials for it."""

    remote: Remote
    credentials: Credentials = ANONYMOUS


@dataclass(frozen=True, slots=True)
class _FetchRequest:
    """What to fetch: `ref` is a name that resolved to `wanted`, for servers that need one."""

    source: RemoteSource
    wanted: str
    ref: str
    whole: bool
    by_name: bool = False


class CommitStore:
    """A store for single commits that never takes more than `cap_bytes` of the disk."""

    def __init__(self, git: Git, store: Store, *, cap_bytes: int) -> None:
        self._git = store_limits.limit_file_size(git, cap_bytes)
        self._store = store
        self._cap_bytes = cap_bytes
        # The last request, which `need` fetches blobs for; None before the first `fetch`.
        self._request: _FetchRequest | None = None
        # Blobs needed of that commit so far, in order; fetched again if the store is discarded.
        self._needed: dict[str, None] = {}
        # Set by a read that found damage; the next fetch starts with an empty store.
        self._is_suspect = False
        # Size right after the last rebuild; it must grow by a quarter before the next one.
        self._rebuilt_bytes = 0
        # One fetch at a time.
        self._lock = asyncio.Lock()

    @classmethod
    def open(cls, git: Git, directory: Path, *, cap_bytes: int) -> CommitStore:
        """Open the store in `directory`, or create one where there is no sound one."""
        return cls(git, Store.open(directory), cap_bytes=cap_bytes)

    def close(self) -> None:
        """Release the files, before the same directory is opened again."""
        self._store.close()

    @property
    def directory(self) -> Path:
        return self._store.directory

    def allow(self, fetch_seconds: float) -> None:
        """Set how long one fetch may take from now on."""
        settings = replace(self._git.settings, fetch_timeout_seconds=fetch_seconds)
        self._git = self._git.under(settings)

    async def fetch(
        self, source: RemoteSource, wanted: str, *, ref: str = "", whole: bool = False
    ) -> str:
        """Fetch the commit `wanted` (or the one that the tag of this id marks); returns its id.

        A stored commit costs no call. `whole` fetches all blobs as well.
        """
        if not refs.is_object_id(wanted) or len(wanted) != _SHA1_CHARS:
            raise GitError("UnsupportedObjectFormat", "a commit id must be a full SHA-1")
        async with self._lock:
            self._request, self._needed = _FetchRequest(source, wanted, ref, whole), {}
            await self._make_room(wanted)
            return await self._fetch_all(self._request)

    async def need(self, blobs: Iterable[str]) -> None:
        """Fetch those of `blobs` that are missing; they belong to the commit last fetched."""
        async with self._lock:
            if self._request is None:
                raise ValueError("fetch a commit before its blobs")
            self._needed.update(dict.fromkeys(blobs))
            await self._fetch_all(self._request)

    def keep(self, commit: str) -> None:
        """Set a ref on a commit, whose blobs are stored, as one of the last targets."""
        with self._mark_suspect():
            targets = sorted(self._store.refs(_TARGETS).items())
            if targets and targets[-1][1] == commit:
                return
            number = int(targets[-1][0].removeprefix(_TARGETS)) + 1 if targets else 0
            failpoint.reach("git.exact.keep.before")
            self._store.note(f"{_TARGETS}{number:010d}", commit)
            failpoint.reach("git.exact.keep.after")
            others = [name for name, target in targets if target != commit]
            stale = {name for name, _ in targets}.difference(others[-(RETAINED_TARGETS - 1) :])
            for name in stale:
                self._store.drop_refs(name)

    def targets(self) -> tuple[str, ...]:
        """The commits kept last, the newest first."""
        with self._mark_suspect():
            targets = sorted(self._store.refs(_TARGETS).items(), reverse=True)
            return tuple(commit for _, commit in targets)

    def tree_of(self, commit: str) -> str:
        with self._mark_suspect():
            return self._store.tree_of(commit)

    def committed_at(self, commit: str) -> int:
        """The committer time of a commit, in seconds since 1970."""
        with self._mark_suspect():
            return self._store.committed_at(commit)

    def author_of(self, commit: str) -> str:
        """The name of the author of a commit."""
        with self._mark_suspect():
            return self._store.author_of(commit)

    def listing(self, commit: str, folder: str = "") -> dict[str, Entry]:
        """Every file below `folder` by its path from the root."""
        with self._mark_suspect():
            return self._store.tree_entries(commit, folder)

    def diff(self, old: str, new: str) -> dict[str, FileChange]:
        """The files that differ between two commits, by their path."""
        with self._mark_suspect():
            return trees.changed_files(
                self._store, self._store.tree_of(old), self._store.tree_of(new)
            )

    def missing(self, blobs: Iterable[str]) -> list[str]:
        """Those of `blobs` that the store does not hold."""
        with self._mark_suspect():
            return self._store.missing(blobs)

    def size(self, blob: str) -> int:
        """The size of a stored blob in bytes."""
        with self._mark_suspect():
            return self._store.blob_size(blob)

    def is_large(self, blob: str) -> bool:
        """Whether a blob should be streamed instead of read."""
        return self.size(blob) > STREAM_FROM_BYTES

    def read(self, blob: str) -> bytes:
        """The content of a stored blob, verified by its id; all of it is in memory."""
        with self._mark_suspect():
            return self._store.read_blob(blob)

    async def stream(self, blob: str, sink: Callable[[bytes], object]) -> int:
        """Pass a blob to `sink` in pieces, in a thread; returns its size.

        The content is verified only when this returns: until then it must not be used.
        """
        size = await asyncio.to_thread(self.size, blob)
        digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)

        def hash_and_forward(piece: bytes) -> None:
            digest.update(piece)
            sink(piece)

        await self._git.run(
            ["cat-file", "blob", blob],
            cwd=self.directory,
            deadline_seconds=self._git.settings.fetch_timeout_seconds,
            config=_LIMITS,
            sink=hash_and_forward,
        )
        if digest.hexdigest() != blob:
            self._is_suspect = True
            raise StoreCorrupt(f"object {blob} in the git store does not match its id")
        return size

    async def _fetch_all(self, request: _FetchRequest) -> str:
        """Fetch the commit and the needed blobs; retries in another way where that can help."""
        if self._is_suspect:
            await self._discard()
        while True:
            was_empty = await asyncio.to_thread(self._is_empty)
            try:
                return await store_limits.run_within(
                    self._cap_bytes, self.directory, self._attempt(request)
                )
            except GitError as error:
                request = await self._next_request(request, error, was_empty=was_empty)

    async def _next_request(
        self, request: _FetchRequest, error: GitError, *, was_empty: bool
    ) -> _FetchRequest:
        """The request to try after a failure that it may avoid; raises any other failure."""
        if isinstance(error, IdsRefused | FilterRefused) and not request.whole:
            self._request = replace(request, whole=True, by_name=isinstance(error, IdsRefused))
            return self._request
        if error.reason not in _REFETCH_REASONS:
            raise error
        await self._discard()
        # An empty store cannot have caused the failure: the remote did.
        if was_empty:
            reason = "TooLarge" if error.reason == "TooLarge" else "Corrupt"
            raise GitError(reason, error.message) from error
        return request

    async def _attempt(self, request: _FetchRequest) -> str:
        fetcher = FetchById(self._store, self._fetcher(request))
        if request.whole and await asyncio.to_thread(rebuild.is_partial, self.directory):
            await self._discard()
        commit = await self._commit(request, fetcher)
        missing = await asyncio.to_thread(self._store.missing, self._needed)
        if missing and not request.whole:
            for start in range(0, len(missing), BATCH):
                await fetcher.blobs(missing[start : start + BATCH])
            missing = await asyncio.to_thread(self._store.missing, missing)
        if missing:
            raise GitError("Corrupt", f"the remote sent {commit} without its blob {missing[0]}")
        return commit

    async def _commit(self, request: _FetchRequest, fetcher: FetchById) -> str:
        if await asyncio.to_thread(self._store.has, request.wanted):
            return await asyncio.to_thread(fetcher.peeled, request.wanted)
        if not request.by_name:
            try:
                return await fetcher.by_id(request.wanted)
            except IdsRefused:
                if not request.whole:
                    raise
        return await fetcher.by_name(request.wanted, request.ref)

    def _fetcher(self, request: _FetchRequest) -> Fetcher:
        return Fetcher(
            self._git,
            self.directory,
            request.source.remote,
            request.source.credentials,
            filter=EVERYTHING if request.whole else NO_BLOBS,
            limits=_LIMITS,
        )

    async def _make_room(self, wanted: str) -> None:
        """Drop what no target needs, if the store is half full or has many packs."""
        size, packs = await asyncio.to_thread(self._size_and_packs)
        grown = size > self._cap_bytes // 2 and size > self._rebuilt_bytes * 5 // 4
        if not grown and packs <= _MAX_PACKS:
            return
        held = await asyncio.to_thread(self._store.has, wanted)
        roots = [*await asyncio.to_thread(self.targets), *([wanted] if held else [])]
        await self._rebuild(roots, self._cap_bytes - size)
        self._rebuilt_bytes, _ = await asyncio.to_thread(self._size_and_packs)

    async def _rebuild(self, roots: list[str], room_bytes: int) -> None:
        """Rebuild, or discard where that fails: everything in a store can be fetched again."""
        if roots:
            try:
                await rebuild.rebuild(self._git, self._store, roots, room_bytes)
            except GitError:
                await self._discard()
        else:
            await self._discard()

    def _size_and_packs(self) -> tuple[int, int]:
        packs = (self.directory / "objects" / "pack").glob("*.pack")
        return store_limits.directory_bytes(self.directory), sum(1 for _ in packs)

    def _is_empty(self) -> bool:
        objects = self.directory / "objects"
        return not any(objects.glob("pack/*.pack")) and not any(objects.glob("??/*"))

    async def _discard(self) -> None:
        await asyncio.to_thread(self._store.discard)
        self._is_suspect = False

    @contextlib.contextmanager
    def _mark_suspect(self) -> Iterator[None]:
        """Guards reads: after one that finds damage, the next fetch starts with an empty store."""
        try:
            yield
        except StoreCorrupt:
            self._is_suspect = True
            raise
