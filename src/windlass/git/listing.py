"""The refs of remotes, asked for once and shared.

All who ask for the same endpoint with the same credential share one `ls-remote`: while
it runs they wait for it together, afterwards an answer younger than they demand is
enough. A failure is told to those who waited and is not kept. One asker who gives up
does not take the answer from the others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from windlass.base.clock import Clock, SystemClock
from windlass.git.child import Git
from windlass.git.credentials import ANONYMOUS, Credentials
from windlass.git.errors import GitError
from windlass.git.format import listing
from windlass.git.format.listing import Listing
from windlass.git.format.remote import Remote

__all__ = ["Listing", "Listings", "read"]

_MOST_KEPT = 1024


@dataclass(frozen=True, slots=True)
class _Kept:
    listing: Listing
    at: float


class Listings:
    """One listing per endpoint and credential."""

    def __init__(self, git: Git, clock: Clock | None = None) -> None:
        self._git = git
        self._clock = clock if clock is not None else SystemClock()
        self._kept: OrderedDict[tuple[str, str, str], _Kept] = OrderedDict()
        self._running: dict[tuple[str, str, str], asyncio.Task[Listing]] = {}

    async def get(
        self, remote: Remote, credentials: Credentials = ANONYMOUS, *, max_age_seconds: float
    ) -> Listing:
        """A listing not older than `max_age_seconds`, counted from when it was asked for."""
        key = (remote.endpoint, remote.user, credentials.fingerprint)
        kept = self._kept.get(key)
        if kept is not None and self._clock.monotonic() - kept.at < max_age_seconds:
            return kept.listing
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(self._ask(key, remote, credentials))
            self._running[key] = task
            task.add_done_callback(lambda done: self._finished(key, done))
        return await asyncio.shield(task)

    def forget(self, remote: Remote) -> None:
        """Drop what is kept of an endpoint, after a push or a poke."""
        for key in [key for key in self._kept if key[0] == remote.endpoint]:
            del self._kept[key]

    async def close(self) -> None:
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _ask(
        self, key: tuple[str, str, str], remote: Remote, credentials: Credentials
    ) -> Listing:
        asked_at = self._clock.monotonic()
        answer = await read(self._git, remote, credentials)
        self._kept[key] = _Kept(answer, asked_at)
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return answer

    def _finished(self, key: tuple[str, str, str], task: asyncio.Task[Listing]) -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            # Seen here, so that a failure nobody waits for any more is no warning.
            task.exception()


async def read(git: Git, remote: Remote, credentials: Credentials = ANONYMOUS) -> Listing:
    """Ask the remote now, not sharing with anybody."""
    done = await git.run(
        ["ls-remote", "--symref", "--", remote.url, "HEAD", "refs/heads/*"],
        credentials=credentials,
        remote=remote,
        deadline_seconds=git.settings.list_timeout_seconds,
    )
    try:
        return listing.parse(done.stdout)
    except ValueError as error:
        raise GitError("Unavailable", str(error)) from error
