"""Proves by fetching that a commit exists on a remote, or lies on a branch.

`CommitProofs`: one fetch of one commit without its directories, into a store that lives as long as
the fetch. The proof is remembered by repository, credential and id; concurrent callers share one.

`BranchHistory`: hosts serve commits of a whole network of forks by id, so an id alone does not show
whose commit it is. The history of the branch does: it is fetched as commits only, without
directories or files, into a store per repository and credential, and grows with the branch. A
commit found on a branch is remembered for the tip it was found under.

`translate_error` reduces failures to the closed set of causes that users see:

| Cause                                                                   | Decision      |
|-------------------------------------------------------------------------|---------------|
| AuthFailed, HostKeyMismatch, HostKeyUnknown, RepoNotFound, RefNotFound,  | Stalled, and  |
| HostBlocked, CommitUnreachable, TLSFailed                               | again in 5 min|
| Timeout, TooLarge, Corrupt, Unavailable                                 | Retryable     |
| SecretMissing, SecretKeyMissing (`credentials`)                         | Waiting       |
"""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections import OrderedDict
from pathlib import Path

from windlass.base.errors import Retryable, Stalled, WindlassError
from windlass.git import store_limits
from windlass.git.credentials import Credentials
from windlass.git.errors import GitError, StoreCorrupt
from windlass.git.fetch import EVERYTHING, NO_TREES, Fetcher
from windlass.git.fetch_by_id import FetchById, FilterRefused, IdsRefused
from windlass.git.format import failures
from windlass.git.format.remote import Remote
from windlass.git.runner import Git
from windlass.git.store import Store
from windlass.sources import credentials as sources_credentials

STALLED_SECONDS = 300.0

STALLED_CAUSES = failures.NEEDS_A_PERSON | {"RefNotFound"}
RETRYABLE_CAUSES = frozenset({"Timeout", "TooLarge", "Corrupt", "Unavailable"})


def resolution_error(reason: str, message: str) -> Stalled | Retryable:
    """The error of one cause, with its decision."""
    if reason in STALLED_CAUSES:
        return Stalled(reason, message, after=STALLED_SECONDS)
    return Retryable(reason, message)


def translate_error(error: WindlassError) -> Stalled | Retryable:
    """The error of a failed git operation, as one of the causes."""
    reason = failures.describe_cause(error.reason, error.message)
    if reason not in STALLED_CAUSES | RETRYABLE_CAUSES:
        reason = "Unavailable"
    return resolution_error(reason, error.message)


HISTORY_BYTES = 2 << 30

_WHOLE_HISTORY = 2147483647
_MAX_CACHED = 4096
_FULL_CHARS = 40

_HistoryKey = tuple[str, str, str]


class BranchHistory:
    """Histories of branches; `directory` is not shared with other code."""

    def __init__(self, git: Git, directory: Path) -> None:
        self._git = git
        self._directory = directory
        # Commits by store, tip and (short) id; bounded, oldest first.
        self._found: OrderedDict[_HistoryKey, str] = OrderedDict()
        # One search at a time in each store.
        self._locks: dict[str, asyncio.Lock] = {}

    async def commit(
        self, remote: Remote, credentials: Credentials, ref: str, tip: str, wanted: str
    ) -> str:
        """The commit of the full or short id `wanted` on the branch `ref`.

        Stalled with CommitNotOnRef or RefNotFound where there is none, or more than one.
        """
        if wanted == tip:
            return tip
        store_name = sources_credentials.store_name(remote, credentials)
        key = (store_name, tip, wanted)
        if key not in self._found:
            async with self._locks.setdefault(store_name, asyncio.Lock()):
                self._found[key] = await self._find_commit(
                    store_name, remote, credentials, ref, tip, wanted
                )
            while len(self._found) > _MAX_CACHED:
                self._found.popitem(last=False)
        return self._found[key]

    async def _find_commit(
        self,
        store_name: str,
        remote: Remote,
        credentials: Credentials,
        ref: str,
        tip: str,
        wanted: str,
    ) -> str:
        try:
            store = await asyncio.to_thread(Store.open, self._directory / store_name)
            try:
                if not await asyncio.to_thread(store.has, tip):
                    await self._fetch_history(store, remote, credentials, ref)
                commits = await asyncio.to_thread(store.abbreviated, tip, wanted)
            except StoreCorrupt:
                await asyncio.to_thread(store.discard)
                raise
            finally:
                await asyncio.to_thread(store.close)
        except WindlassError as error:
            raise translate_error(error) from error
        return _only_match(commits, ref, wanted)

    async def _fetch_history(
        self, store: Store, remote: Remote, credentials: Credentials, ref: str
    ) -> None:
        git = store_limits.limit_file_size(self._git, HISTORY_BYTES)
        refspec = f"+{ref}:{Fetcher.local_ref(ref)}"
        for filter_spec in (NO_TREES, EVERYTHING):
            fetcher = Fetcher(git, store.directory, remote, credentials, filter=filter_spec)
            work = fetcher.fetch_names([refspec], depth=_WHOLE_HISTORY)
            try:
                await store_limits.run_within(HISTORY_BYTES, store.directory, work)
            except GitError as error:
                if filter_spec and "filter" in error.message:
                    continue
                raise
            return


def _only_match(commits: list[str], ref: str, wanted: str) -> str:
    branch = ref.removeprefix("refs/heads/")
    if not commits:
        raise Stalled(
            "CommitNotOnRef",
            f"commit {wanted} is not on branch {branch}; use the branch that contains it",
        )
    if len(commits) > 1:
        raise Stalled(
            "RefNotFound",
            f"{wanted} is ambiguous: {len(commits)} commits on {branch} begin with it; use all "
            f"{_FULL_CHARS} characters",
        )
    return commits[0]


SCRATCH_BYTES = 1024 * 1024 * 1024

_PREFIX = "proof-"

_Key = tuple[str, str, str, str]


class CommitProofs:
    """Proven commits; `scratch` is a directory that is not shared with other code."""

    def __init__(self, git: Git, scratch: Path) -> None:
        self._git = git
        self._scratch = scratch
        # Whether stores that a killed process left were removed.
        self._is_scratch_clean = False
        # Commits by remote, user, credential and id; bounded, least recently used first.
        self._proven: OrderedDict[_Key, str] = OrderedDict()
        # Proofs under way, shared by their callers.
        self._running: dict[_Key, asyncio.Task[str]] = {}

    async def commit(self, remote: Remote, credentials: Credentials, sha: str) -> str:
        """The commit of the id `sha`; GitError where the remote does not serve it."""
        key = (remote.fetch_key, remote.user, credentials.fingerprint, sha)
        if key in self._proven:
            self._proven.move_to_end(key)
            return self._proven[key]
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(self._prove(key, remote, credentials))
            self._running[key] = task
            task.add_done_callback(lambda done: self._finished(key, done))
        return await asyncio.shield(task)

    def forget(self, sha: str) -> None:
        """Drop the proof of an id, after a fetch of it failed."""
        for key in [key for key in self._proven if key[3] == sha]:
            del self._proven[key]

    async def close(self) -> None:
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _prove(self, key: _Key, remote: Remote, credentials: Credentials) -> str:
        directory = self._scratch / f"{_PREFIX}{uuid.uuid4().hex}"
        store = await asyncio.to_thread(self._open_scratch, directory)
        try:
            bound = store_limits.limit_file_size(self._git, SCRATCH_BYTES)
            proof = _fetch_commit(bound, store, remote, credentials, key[3])
            commit = await store_limits.run_within(SCRATCH_BYTES, directory, proof)
        finally:
            await asyncio.to_thread(_remove, store)
        self._proven[key] = commit
        while len(self._proven) > _MAX_CACHED:
            self._proven.popitem(last=False)
        return commit

    def _open_scratch(self, directory: Path) -> Store:
        if not self._is_scratch_clean:
            self._is_scratch_clean = True
            for left in self._scratch.glob(f"{_PREFIX}*"):
                shutil.rmtree(left, ignore_errors=True)
        return Store.open(directory)

    def _finished(self, key: _Key, task: asyncio.Task[str]) -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            # Retrieved here, so that asyncio does not warn of a failure without a waiting caller.
            task.exception()


async def _fetch_commit(
    git: Git, store: Store, remote: Remote, credentials: Credentials, sha: str
) -> str:
    """Fetch a commit with as few objects as the server supports."""
    fetcher = _fetcher(git, store, remote, credentials, NO_TREES)
    try:
        return await fetcher.by_id(sha)
    except FilterRefused:
        fetcher = _fetcher(git, store, remote, credentials, EVERYTHING)
        return await fetcher.by_id(sha)
    except IdsRefused:
        return await fetcher.by_name(sha, "")


def _fetcher(
    git: Git, store: Store, remote: Remote, credentials: Credentials, filter_spec: str
) -> FetchById:
    return FetchById(store, Fetcher(git, store.directory, remote, credentials, filter=filter_spec))


def _remove(store: Store) -> None:
    store.close()
    shutil.rmtree(store.directory, ignore_errors=True)
