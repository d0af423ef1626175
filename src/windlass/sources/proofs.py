"""Proves that a commit can be had from a remote, by fetching it.

A proof costs one fetch of one commit without its directories into a store that lives as
long as the fetch. It is remembered for the repository, the credential and the id; all
who want the same proof at the same time share one.
"""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections import OrderedDict
from pathlib import Path

from windlass.git import store_limits
from windlass.git.credentials import Credentials
from windlass.git.fetch import EVERYTHING, NO_TREES, Fetcher
from windlass.git.fetch_by_id import FetchById, FilterRefused, IdsRefused
from windlass.git.format.remote import Remote
from windlass.git.runner import Git
from windlass.git.store import Store

SCRATCH_BYTES = 1024 * 1024 * 1024

_MOST_KEPT = 4096
_PREFIX = "proof-"

_Key = tuple[str, str, str, str]


class Proofs:
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
