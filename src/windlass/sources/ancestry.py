"""Proves that a commit lies on a branch.

Hosts serve commits of a whole network of forks by their ids, so an id alone says nothing
about whose commit it is. The history of the branch does: it is fetched as commits alone,
without directories or files, into a store of the repository and the credential, and grows
with the branch. A commit once found on a branch is remembered for the tip it was found
under.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from pathlib import Path

from windlass.base.errors import Stalled, WindlassError
from windlass.git import store_limits
from windlass.git.credentials import Credentials
from windlass.git.errors import GitError, StoreCorrupt
from windlass.git.fetch import EVERYTHING, NO_TREES, Fetcher
from windlass.git.format.remote import Remote
from windlass.git.runner import Git
from windlass.git.store import Store
from windlass.sources import causes, place

HISTORY_BYTES = 2 << 30

_WHOLE_HISTORY = 2147483647
_MOST_KEPT = 4096
_FULL_CHARS = 40

_Key = tuple[str, str, str]


class Ancestry:
    """Histories of branches; `directory` is one that nobody else uses."""

    def __init__(self, git: Git, directory: Path) -> None:
        self._git = git
        self._directory = directory
        self._found: OrderedDict[_Key, str] = OrderedDict()
        self._turns: dict[str, asyncio.Lock] = {}

    async def commit(
        self, remote: Remote, credentials: Credentials, ref: str, tip: str, wanted: str
    ) -> str:
        """The commit that `wanted` (a whole or a shortened id) means on the branch `ref`.

        Stalled with CommitNotOnRef or RefNotFound where there is none, or more than one.
        """
        if wanted == tip:
            return tip
        here = place.name(remote, credentials)
        key = (here, tip, wanted)
        if key not in self._found:
            async with self._turns.setdefault(here, asyncio.Lock()):
                self._found[key] = await self._sought(here, remote, credentials, ref, tip, wanted)
            while len(self._found) > _MOST_KEPT:
                self._found.popitem(last=False)
        return self._found[key]

    async def _sought(
        self, here: str, remote: Remote, credentials: Credentials, ref: str, tip: str, wanted: str
    ) -> str:
        try:
            store = await asyncio.to_thread(Store.open, self._directory / here)
            try:
                if not await asyncio.to_thread(store.has, tip):
                    await self._grown(store, remote, credentials, ref)
                found = await asyncio.to_thread(store.abbreviated, tip, wanted)
            except StoreCorrupt:
                await asyncio.to_thread(store.discard)
                raise
            finally:
                await asyncio.to_thread(store.close)
        except WindlassError as error:
            raise causes.translated(error) from error
        return _only(found, ref, wanted)

    async def _grown(
        self, store: Store, remote: Remote, credentials: Credentials, ref: str
    ) -> None:
        git = store_limits.limit_file_size(self._git, HISTORY_BYTES)
        refspec = f"+{ref}:{Fetcher.local_ref(ref)}"
        for leaving_out in (NO_TREES, EVERYTHING):
            fetching = Fetcher(git, store.directory, remote, credentials, filter=leaving_out)
            work = fetching.fetch_names([refspec], depth=_WHOLE_HISTORY)
            try:
                await store_limits.run_within(HISTORY_BYTES, store.directory, work)
            except GitError as error:
                if leaving_out and "filter" in error.message:
                    continue
                raise
            return


def _only(found: list[str], ref: str, wanted: str) -> str:
    branch = ref.removeprefix("refs/heads/")
    if not found:
        raise Stalled(
            "CommitNotOnRef",
            f"commit {wanted} is not on branch {branch}; name the branch that holds it",
        )
    if len(found) > 1:
        raise Stalled(
            "RefNotFound",
            f"{wanted} is the beginning of {len(found)} commits on {branch}; give all "
            f"{_FULL_CHARS} characters",
        )
    return found[0]
