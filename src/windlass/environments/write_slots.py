"""A priority semaphore for writes of many Environments at once.

Twenty that write side by side are all finished late; one after the other, the first are
finished soon and the last no later. So only a few write at a time. Those that serve go
before those that are new, those that are further along before those that begin, and of equals
the first to ask.

A slot is released by itself after some seconds, done or not: a slow server that delays one
Environment delays no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import AsyncIterator
from enum import IntEnum

SLOTS = 2
MAX_HOLD_SECONDS = 2.0


class SlotPriority(IntEnum):
    """Who goes first."""

    SERVING = 0
    APPLYING = 1
    BEGINNING = 2


class WriteSlots:
    """`turns` at a time."""

    def __init__(self, turns: int = SLOTS, *, longest_seconds: float = MAX_HOLD_SECONDS) -> None:
        self._free = turns
        self._longest_seconds = longest_seconds
        self._waiting: list[tuple[SlotPriority, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    @contextlib.asynccontextmanager
    async def acquire(self, rank: SlotPriority) -> AsyncIterator[None]:
        """Wait for a turn, and have it."""
        await self._wait(rank)
        turn = _Slot(self)
        handle = asyncio.get_running_loop().call_later(self._longest_seconds, turn.end)
        try:
            yield
        finally:
            handle.cancel()
            turn.end()

    async def _wait(self, rank: SlotPriority) -> None:
        if self._free > 0:
            self._free -= 1
            return
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (rank, next(self._numbers), called))
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """One turn is free for the next."""
        while self._waiting:
            _, _, called = heapq.heappop(self._waiting)
            if not called.done():
                called.set_result(None)
                return
        self._free += 1


class _Slot:
    """A turn that ends once."""

    def __init__(self, turns: WriteSlots) -> None:
        self._slots = turns
        self._has_ended = False

    def end(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._slots.release()
