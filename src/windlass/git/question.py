"""One question about a remote's refs, from the first who wants it to the answer.

    gathering ──(the window closes, the question before is over)──▶ asked ──▶ answered

While it gathers, everybody adds what they want to know; once asked it changes no more.
The window is as short as the least patient asker demands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from windlass.git.format import listing
from windlass.git.format.listing import Listing


class Question:
    """What is to be asked of one remote with one credential; `task` brings the answer."""

    task: asyncio.Task[Listing]

    def __init__(self) -> None:
        self.wants: set[str] = set()
        self.asked: frozenset[str] = frozenset()
        self.asked_at: float | None = None
        self._closed = asyncio.Event()
        self._due = float("inf")

    def join(self, wants: Iterable[str], gather_seconds: float) -> None:
        """Want something of it, and close its window in `gather_seconds` at the latest."""
        self.wants.update(wants)
        loop = asyncio.get_running_loop()
        due = loop.time() + gather_seconds
        if due >= self._due:
            return
        self._due = due
        if gather_seconds > 0:
            loop.call_at(due, self._closed.set)
        else:
            self._closed.set()

    async def gathered(self, before: Question | None) -> None:
        """Until the window is closed and the question before this one is answered."""
        await self._closed.wait()
        if before is not None and not before.task.done():
            await asyncio.wait([before.task])

    def ask(self, expected: Iterable[str], most: int, now: float) -> frozenset[str]:
        """What is asked for now: what was wanted, and what others are going to want."""
        self.asked = listing.folded(frozenset(self.wants).union(expected), most)
        self.asked_at = now
        return self.asked

    def serves(self, wants: frozenset[str], after: float) -> bool:
        """Whether the answer under way holds what is wanted and was asked for after a moment."""
        is_young = self.asked_at is not None and self.asked_at > after
        return is_young and listing.covers(self.asked, wants)
