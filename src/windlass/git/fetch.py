"""Fetches commits and blobs of a remote into a store, as little as possible.

Commits come with depth 1 and without blobs where the server allows that; a server without filters
sends everything, which is fine. Blobs come by their ids in one fetch; a server that refuses ids is
asked for the whole commit again without a filter. The configuration of the store stays empty: what
git must know about the remote is passed with each call, so a store can be fetched through any
address of its repository, and no later read can turn into a download.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.base import failpoint
from windlass.git import store_health
from windlass.git.credentials import Credentials
from windlass.git.errors import GitError, StoreCorrupt
from windlass.git.format import refs
from windlass.git.format.remote import Remote
from windlass.git.ls_remote import list_refs
from windlass.git.runner import Git

NO_BLOBS = "blob:none"
NO_TREES = "tree:0"
EVERYTHING = ""

# Offer no commits: git would claim that a partial store holds all objects of them.
_NO_HAVES = (("fetch.negotiationAlgorithm", "noop"),)
_QUIET = (
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--no-recurse-submodules",
)


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches from one remote into one store."""

    git: Git  # with the limits of these fetches
    directory: Path  # of the bare store
    remote: Remote  # to fetch from
    credentials: Credentials  # for `remote`
    filter: str = NO_BLOBS  # what the server leaves out; EVERYTHING: nothing
    limits: Sequence[tuple[str, str]] = ()  # configuration that bounds the resources of git

    @staticmethod
    def local_ref(ref: str) -> str:
        """The local ref that tracks a remote ref; hashed, so that no two names collide."""
        return f"refs/windlass/{hashlib.sha256(ref.encode()).hexdigest()[:32]}"

    async def fetch(self, ref: str, *, depth: int, blobless: bool) -> None:
        """Fetch the newest `depth` commits of `ref` to its local ref."""
        local = self.local_ref(ref)
        failpoint.reach("git.fetch.before")
        args = [f"--depth={depth}", "origin", f"+{ref}:{local}"]
        if blobless:
            try:
                await self._run([*self._filtered(), *args])
            except GitError as error:
                if "filter" not in error.message:
                    raise
                await self._run(args)
        else:
            await self._run(["--refetch", "--no-filter", *args])
        failpoint.reach("git.fetch.after")

    async def fetch_id(self, identifier: str) -> None:
        """Fetch one object by id and, of a commit, what the filter leaves; sets no ref."""
        failpoint.reach("git.fetch.before")
        args = [*self._filtered(), "--depth=1", "origin", identifier]
        try:
            await self._run(args, extra=_NO_HAVES if self.filter else ())
        except GitError as error:
            if error.reason == "Timeout":
                # Nothing was listed before a fetch by id. A port that is open and silent must read
                # like a closed one, as in a listing; a server that lists its HEAD is merely slow.
                await list_refs(self.git, self.remote, self.credentials, wants=frozenset())
            raise
        failpoint.reach("git.fetch.after")

    async def fetch_names(self, refspecs: Sequence[str], *, depth: int) -> None:
        """Fetch the newest `depth` commits of several refs by refspecs."""
        await self._run([*self._filtered(), f"--depth={depth}", "origin", *refspecs])

    async def fetch_blobs(self, ids: Sequence[str]) -> None:
        """Fetch blobs by id in one request; RefNotFound or Rejected if the server refuses ids."""
        listed = "".join(f"{blob_id}\n" for blob_id in ids if refs.is_object_id(blob_id)).encode()
        await self._run([*self._filtered(), "--stdin", "origin"], stdin=listed, extra=_NO_HAVES)

    async def fetch_objects(self, ids: Sequence[str]) -> None:
        """Fetch blobs by id, or with their whole commits where the server refuses ids."""
        try:
            await self.fetch_blobs(ids)
        except GitError as error:
            if error.reason not in {"RefNotFound", "Rejected"}:
                raise
            await self._fetch_whole_tips(error)

    async def _fetch_whole_tips(self, cause: GitError) -> None:
        """Fetch every commit that has a local ref once more, with its blobs."""
        tips = [line.split()[0] for line in await self._local_tips()]
        if not tips:
            raise cause
        await self._run(["--refetch", "--no-filter", "--depth=1", "origin", *tips])

    async def _local_tips(self) -> list[str]:
        done = await self.git.run(
            ["for-each-ref", "--format=%(objectname)", "refs/windlass/"],
            cwd=self.directory,
            deadline_seconds=self.git.settings.list_timeout_seconds,
        )
        return done.stdout.decode().splitlines()

    async def _run(
        self,
        args: Sequence[str],
        *,
        stdin: bytes = b"",
        extra: Sequence[tuple[str, str]] = (),
    ) -> None:
        done = False
        try:
            await self.git.run(
                ["fetch", *_QUIET, *args],
                credentials=self.credentials,
                remote=self.remote,
                cwd=self.directory,
                deadline_seconds=self.git.settings.fetch_timeout_seconds,
                stdin=stdin,
                config=(*self._remote_config(), *self.limits, *extra),
                before_repeat=lambda: store_health.remove_leftover_locks(self.directory),
            )
            done = True
        except GitError as error:
            if error.reason == "Corrupt":
                raise StoreCorrupt(error.message) from error
            raise
        finally:
            if not done:
                store_health.remove_leftover_locks(self.directory)

    def _remote_config(self) -> Iterator[tuple[str, str]]:
        yield "remote.origin.url", self.remote.url
        if self.filter:
            yield "remote.origin.promisor", "true"
            yield "remote.origin.partialclonefilter", self.filter

    def _filtered(self) -> Iterator[str]:
        if self.filter:
            yield f"--filter={self.filter}"
