"""Fetches one commit, named by its id, into a store.

1. The id is requested directly, with depth 1 and a filter.
2. A server that refuses ids (protocol v0) is asked for the ref instead, or for all branches and
   tags where there is no ref: first their tips, then 50 commits of each. It counts only if the id
   is among what comes.
3. An id that the server does not have is `CommitUnreachable`; so is one of another kind of object.
   The id of a tag stands for the commit that it marks.

No ref stays behind: the caller decides whether a commit is kept.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from windlass.git.errors import GitError
from windlass.git.fetch import Fetcher
from windlass.git.store import Store

_DEPTHS = (1, 50)
_CANDIDATES = "refs/windlass/candidates/"
_CONCLUSIVE = "not our ref"


class IdsRefused(GitError):
    """The server serves objects by ref only."""

    def __init__(self, cause: GitError) -> None:
        super().__init__("RefNotFound", cause.message)


class FilterRefused(GitError):
    """The server does not support filters."""

    def __init__(self, cause: GitError) -> None:
        super().__init__("Unavailable", cause.message)


@dataclass(frozen=True, slots=True)
class FetchById:
    """Fetches single commits and blobs into one store."""

    store: Store
    fetcher: Fetcher

    async def by_id(self, wanted: str) -> str:
        """Fetch the commit of the id `wanted`; IdsRefused where it must be fetched by ref."""
        try:
            await self.fetcher.fetch_id(wanted)
        except GitError as error:
            raise _translate(error, wanted) from error
        return await asyncio.to_thread(self.peeled, wanted)

    async def by_name(self, wanted: str, ref: str) -> str:
        """Fetch the newest commits of `ref`, or of all refs, until `wanted` is among them."""
        try:
            for depth in _DEPTHS:
                await self._fetch_named(ref, depth)
                if await asyncio.to_thread(self.store.has, wanted):
                    return await asyncio.to_thread(self.peeled, wanted)
        except GitError as error:
            if error.reason != "RefNotFound":
                raise
            raise commit_unreachable(wanted, f"{ref} no longer exists") from error
        finally:
            await asyncio.to_thread(self.store.drop_refs, _CANDIDATES)
        among = ref or "any branch or tag"
        raise commit_unreachable(
            wanted, f"it is not among the newest {_DEPTHS[-1]} commits of {among}, and the"
            " server does not serve commits by id"
        )  # fmt: skip

    async def blobs(self, ids: list[str]) -> None:
        """Fetch blobs by id; IdsRefused where they come only with their commit."""
        try:
            await self.fetcher.fetch_blobs(ids)
        except GitError as error:
            raise _translate(error, ids[0]) from error

    def peeled(self, wanted: str) -> str:
        """The commit of an id that is stored."""
        kind, commit = self.store.peeled(wanted)
        if kind != "commit":
            raise commit_unreachable(wanted, f"it is a {kind}, not a commit")
        return commit

    async def _fetch_named(self, ref: str, depth: int) -> None:
        names = [f"+{ref}:{_CANDIDATES}one"] if ref else _EVERY_NAME
        await self.fetcher.fetch_names(names, depth=depth)


_EVERY_NAME = [
    f"+refs/heads/*:{_CANDIDATES}heads/*",
    f"+refs/tags/*:{_CANDIDATES}tags/*",
]


def commit_unreachable(wanted: str, why: str) -> GitError:
    """The error of an id that cannot be fetched as a commit."""
    return GitError("CommitUnreachable", f"{wanted} cannot be fetched: {why}")


def _translate(error: GitError, wanted: str) -> GitError:
    if error.reason in {"RefNotFound", "Rejected"}:
        if _CONCLUSIVE in error.message:
            return commit_unreachable(wanted, "the remote does not have it; check the id")
        return IdsRefused(error)
    if error.reason == "Unavailable" and "filter" in error.message:
        return FilterRefused(error)
    return error
