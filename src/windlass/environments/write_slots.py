"""A priority semaphore that bounds how many Environments write at the same time.

Used by `environment_reconciler`. Twenty Environments that write side by side all finish late; one
after the other, the first finish soon and the last no later. Those that serve go before new ones,
new ones that are further along before those that begin, and equals in the order of their request.

A slot is released after `MAX_HOLD_SECONDS` even if its holder is still writing: a slow request of
one Environment does not delay the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import AsyncIterator
from enum import IntEnum

MAX_HOLD_SECONDS = 2.0
"""After this time a slot is free for others, even if its holder still writes."""


class SlotPriority(IntEnum):
    """Order in which waiting Environments get a slot, lowest first."""

    SERVING = 0  # a revision is running and in use
    APPLYING = 1  # new, and its namespace is ready
    BEGINNING = 2  # new, its namespace is still to be created


class WriteSlots:
    """At most `slots` holders at a time, each for at most `MAX_HOLD_SECONDS`."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        # Heap of waiters: priority, then order of arrival; the Future is resolved with the slot.
        self._waiting: list[tuple[SlotPriority, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    @contextlib.asynccontextmanager
    async def acquire(self, priority: SlotPriority) -> AsyncIterator[None]:
        """Hold a slot for the duration of the block, waiting for one if none is free."""
        await self._wait(priority)
        slot = _Slot(self)
        timer = asyncio.get_running_loop().call_later(MAX_HOLD_SECONDS, slot.end)
        try:
            yield
        finally:
            timer.cancel()
            slot.end()

    async def _wait(self, priority: SlotPriority) -> None:
        if self._free > 0:
            self._free -= 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._numbers), granted))
        try:
            await granted
        except asyncio.CancelledError:
            # Granted and cancelled in the same moment: the slot would be lost.
            if granted.done() and not granted.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Give a slot to the first waiter, or back to the free ones."""
        while self._waiting:
            _, _, granted = heapq.heappop(self._waiting)
            if not granted.done():  # not cancelled while waiting
                granted.set_result(None)
                return
        self._free += 1


class _Slot:
    """A held slot; released once, by its holder or by the timer."""

    def __init__(self, slots: WriteSlots) -> None:
        self._slots = slots
        self._has_ended = False

    def end(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._slots.release()
