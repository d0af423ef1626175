"""Gets commits and blobs of a remote into a store, as little as will do.

Commits come one deep and without blobs where the server allows that; a server that does
not know filters sends everything, which is as good. Blobs come by their ids in one
fetch; a server that refuses ids is asked for the whole commit again without a filter.
The store's own configuration stays empty: what git must know about the remote goes in
with each call, so a store can be fetched through any address of its repository.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.base import failpoint
from windlass.git import leftovers
from windlass.git.child import Git
from windlass.git.credentials import Credentials
from windlass.git.errors import GitError, StoreCorrupt
from windlass.git.format import refs
from windlass.git.format.remote import Remote

_FILTER = "blob:none"
_QUIET = (
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--no-recurse-submodules",
)


@dataclass(frozen=True, slots=True)
class Fetching:
    """Fetches of one store from one remote."""

    git: Git
    directory: Path
    remote: Remote
    credentials: Credentials

    @staticmethod
    def local_ref(ref: str) -> str:
        """Where a remote ref is noted in the store; hashed, so that no two names collide."""
        return f"refs/windlass/{hashlib.sha256(ref.encode()).hexdigest()[:32]}"

    async def fetch(self, ref: str, *, depth: int, blobless: bool) -> str:
        """The newest `depth` commits of `ref`; the id of the newest."""
        local = self.local_ref(ref)
        failpoint.reach("git.fetch.before")
        args = [f"--depth={depth}", "origin", f"+{ref}:{local}"]
        if blobless:
            try:
                await self._run([f"--filter={_FILTER}", *args])
            except GitError as error:
                if "filter" not in error.message:
                    raise
                await self._run(args)
        else:
            await self._run(["--refetch", "--no-filter", *args])
        failpoint.reach("git.fetch.after")
        return await self._tip(local)

    async def fetch_objects(self, ids: Sequence[str]) -> None:
        """Objects by their ids, all in one fetch."""
        listed = "".join(f"{each}\n" for each in ids if refs.is_object_id(each)).encode()
        try:
            await self._run(
                [f"--filter={_FILTER}", "--stdin", "origin"],
                stdin=listed,
                extra=(("fetch.negotiationAlgorithm", "noop"),),
            )
        except GitError as error:
            if error.reason not in {"RefNotFound", "Rejected"}:
                raise
            await self._fetch_whole_tips(error)

    async def _fetch_whole_tips(self, cause: GitError) -> None:
        """The way without ids: every commit noted here once more, with its blobs."""
        tips = [line.split()[0] for line in await self._noted()]
        if not tips:
            raise cause
        await self._run(["--refetch", "--no-filter", "--depth=1", "origin", *tips])

    async def _noted(self) -> list[str]:
        done = await self.git.run(
            ["for-each-ref", "--format=%(objectname)", "refs/windlass/"],
            cwd=self.directory,
            deadline_seconds=self.git.settings.list_timeout_seconds,
        )
        return done.stdout.decode().splitlines()

    async def _tip(self, local: str) -> str:
        done = await self.git.run(
            ["rev-parse", "--verify", "--end-of-options", f"{local}^{{commit}}"],
            cwd=self.directory,
            deadline_seconds=self.git.settings.list_timeout_seconds,
        )
        return done.stdout.decode().strip()

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
                config=(*self._remote_config(), *extra),
            )
            done = True
        except GitError as error:
            if error.reason == "Corrupt":
                raise StoreCorrupt(error.message) from error
            raise
        finally:
            if not done:
                leftovers.remove_locks(self.directory)

    def _remote_config(self) -> Iterator[tuple[str, str]]:
        yield "remote.origin.url", self.remote.url
        yield "remote.origin.promisor", "true"
        yield "remote.origin.partialclonefilter", _FILTER

    @staticmethod
    async def repack(git: Git, directory: Path) -> None:
        """Every own object into one pack; promised ones stay where they are."""
        await git.run(
            ["repack", "-a", "-d", "-k", "-l", "-q"],
            cwd=directory,
            deadline_seconds=git.settings.fetch_timeout_seconds,
            config=(("remote.origin.promisor", "true"),),
        )
