"""Proves that a commit can be had from a remote, by fetching it.

A proof costs one fetch of one commit without its directories into a store that lives as
long as the fetch. It is remembered for the repository, the credential and the id; all
who want the same proof at the same time share one.

Proves that a commit lies on a branch.

Hosts serve commits of a whole network of forks by their ids, so an id alone says nothing
about whose commit it is. The history of the branch does: it is fetched as commits alone,
without directories or files, into a store of the repository and the credential, and grows
with the branch. A commit once found on a branch is remembered for the tip it was found
under.

Why a commit could not be found, as the closed set of causes that users see.

| Cause                                                                   | Decision      |
|-------------------------------------------------------------------------|---------------|
| AuthFailed, HostKeyMismatch, RepoNotFound, RefNotFound, HostBlocked,     | Stalled, and  |
| CommitUnreachable, TLSFailed                                            | again in 5 min|
| Timeout, TooLarge, Corrupt, Unavailable                                 | Retryable     |
| SecretMissing, SecretKeyMissing (`secrets.py`)                          | Waiting       |
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
    """What went wrong with git, as one of the causes."""
    reason = failures.describe_cause(error.reason, error.message)
    if reason not in STALLED_CAUSES | RETRYABLE_CAUSES:
        reason = "Unavailable"
    return resolution_error(reason, error.message)


HISTORY_BYTES = 2 << 30

_WHOLE_HISTORY = 2147483647
_MOST_KEPT = 4096
_FULL_CHARS = 40

_HistoryKey = tuple[str, str, str]


class BranchHistory:
    """Histories of branches; `directory` is one that nobody else uses."""

    def __init__(self, git: Git, directory: Path) -> None:
        self._git = git
        self._directory = directory
        self._found: OrderedDict[_HistoryKey, str] = OrderedDict()
        self._turns: dict[str, asyncio.Lock] = {}

    async def commit(
        self, remote: Remote, credentials: Credentials, ref: str, tip: str, wanted: str
    ) -> str:
        """The commit that `wanted` (a whole or a shortened id) means on the branch `ref`.

        Stalled with CommitNotOnRef or RefNotFound where there is none, or more than one.
        """
        if wanted == tip:
            return tip
        here = sources_credentials.store_name(remote, credentials)
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
            raise translate_error(error) from error
        return _only_match(found, ref, wanted)

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


def _only_match(found: list[str], ref: str, wanted: str) -> str:
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


SCRATCH_BYTES = 1024 * 1024 * 1024

_PREFIX = "proof-"

_Key = tuple[str, str, str, str]


class CommitProofs:
    """What was proven; `scratch` is a directory that nobody else uses."""

    def __init__(self, git: Git, scratch: Path) -> None:
        self._git = git
        self._scratch = scratch
        self._is_swept = False
        self._proven: OrderedDict[_Key, str] = OrderedDict()
        self._running: dict[_Key, asyncio.Task[str]] = {}

    async def commit(self, remote: Remote, credentials: Credentials, sha: str) -> str:
        """The commit that `sha` stands for; GitError where the remote does not give it."""
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
        """Prove an id anew next time: somebody could not fetch it."""
        for key in [key for key in self._proven if key[3] == sha]:
            del self._proven[key]

    async def close(self) -> None:
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _prove(self, key: _Key, remote: Remote, credentials: Credentials) -> str:
        directory = self._scratch / f"{_PREFIX}{uuid.uuid4().hex}"
        store = await asyncio.to_thread(self._opened, directory)
        try:
            bound = store_limits.limit_file_size(self._git, SCRATCH_BYTES)
            proof = _fetched(bound, store, remote, credentials, key[3])
            commit = await store_limits.run_within(SCRATCH_BYTES, directory, proof)
        finally:
            await asyncio.to_thread(_remove, store)
        self._proven[key] = commit
        while len(self._proven) > _MOST_KEPT:
            self._proven.popitem(last=False)
        return commit

    def _opened(self, directory: Path) -> Store:
        if not self._is_swept:
            self._is_swept = True
            for left in self._scratch.glob(f"{_PREFIX}*"):
                shutil.rmtree(left, ignore_errors=True)
        return Store.open(directory)

    def _finished(self, key: _Key, task: asyncio.Task[str]) -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            # Seen here, so that a failure nobody waits for any more is no warning.
            task.exception()


async def _fetched(
    git: Git, store: Store, remote: Remote, credentials: Credentials, sha: str
) -> str:
    """With as little as the server can be brought to send."""
    getting = _getting(git, store, remote, credentials, NO_TREES)
    try:
        return await getting.by_id(sha)
    except FilterRefused:
        getting = _getting(git, store, remote, credentials, EVERYTHING)
        return await getting.by_id(sha)
    except IdsRefused:
        return await getting.by_name(sha, "")


def _getting(
    git: Git, store: Store, remote: Remote, credentials: Credentials, leaving_out: str
) -> FetchById:
    return FetchById(store, Fetcher(git, store.directory, remote, credentials, filter=leaving_out))


def _remove(store: Store) -> None:
    store.close()
    shutil.rmtree(store.directory, ignore_errors=True)
