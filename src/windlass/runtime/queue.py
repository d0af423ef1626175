"""The work queue: keys in, one worker per key out.

The order is that of `line`; this adds waiting, timers of the running event loop and
a backoff for each failing key. All methods are called on the loop's thread. A key
that `get` handed out stays with its worker until `done`.

Which key is worked on next: the order of a queue without its waiting.

Pure: the time comes in as `now`, which never goes back.

  A key is in at most one of waiting (in line), working (a worker has it).
  Added while waiting: nothing, the pass to come sees it.
  Added while working: it goes to the end of the line when the work is done, once.
  Added for later: one due time per key, the earliest wins; due means added.

So a key never has two workers, everything that was added is taken after it was
added, and keys are taken in the order in which they came into line.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import random
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from windlass.base.clock import HALF, Backoff

K = TypeVar("K", bound=Hashable)

_SPARE = 64


class KeyOrder(Generic[K]):
    """Keys in line, at work, marked to run again, and due later."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[K, float] = OrderedDict()
        self._working: set[K] = set()
        self._again: set[K] = set()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = itertools.count()
        self._closed = False

    @property
    def depth(self) -> int:
        return len(self._waiting)

    @property
    def working(self) -> int:
        return len(self._working)

    @property
    def delayed(self) -> int:
        return len(self._due)

    @property
    def exhausted(self) -> bool:
        """Closed, and nothing will ever come into line again."""
        return self._closed and not self._waiting and not self._again

    def next_due(self) -> float | None:
        """When the next delayed key is due."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def add(self, key: K, now: float) -> None:
        if self._closed:
            return
        if key in self._working:
            self._again.add(key)
        else:
            self._waiting.setdefault(key, now)

    def add_at(self, key: K, due: float) -> None:
        if self._closed or self._due.get(key, math.inf) <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._count), key))
        if len(self._heap) > 2 * len(self._due) + _SPARE:
            self._compact()

    def promote(self, now: float) -> int:
        """Bring every key that is due into line; how many there were."""
        promoted = 0
        while (due := self.next_due()) is not None and due <= now:
            _, _, key = heapq.heappop(self._heap)
            del self._due[key]
            self.add(key, now)
            promoted += 1
        return promoted

    def take(self, now: float) -> K | None:
        """The first in line, now being worked on."""
        self.promote(now)
        if not self._waiting:
            return None
        key, _ = self._waiting.popitem(last=False)
        self._working.add(key)
        return key

    def done(self, key: K, now: float) -> None:
        """The worker of `key` gives it back."""
        self._working.remove(key)
        if key in self._again:
            self._again.discard(key)
            self._waiting[key] = now

    def close(self, *, drain: bool) -> None:
        """Take in nothing more; what stands in line is still served if `drain`."""
        self._closed = True
        self._due.clear()
        self._heap.clear()
        if not drain:
            self._waiting.clear()
            self._again.clear()

    def _compact(self) -> None:
        self._heap = [(due, next(self._count), key) for key, due in self._due.items()]
        heapq.heapify(self._heap)


RETRY_INITIAL_SECONDS = 0.5
RETRY_CEILING_SECONDS = 300.0


class KeyedQueue(Generic[K]):
    """A coalescing, fair queue of keys with delays and per-key backoff."""

    def __init__(
        self,
        *,
        retry_initial_seconds: float = RETRY_INITIAL_SECONDS,
        retry_ceiling_seconds: float = RETRY_CEILING_SECONDS,
        retry_spread: tuple[float, float] = HALF,
        rng: random.Random | None = None,
    ) -> None:
        self._retry_initial_seconds = retry_initial_seconds
        self._retry_ceiling_seconds = retry_ceiling_seconds
        self._retry_spread = retry_spread
        self._rng = rng or random.Random()
        self._line: KeyOrder[K] = KeyOrder()
        self._failing: dict[K, Backoff] = {}
        self._wakeup = asyncio.Event()
        self._returned = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def depth(self) -> int:
        """Keys in line, without those at work or due later."""
        return self._line.depth

    @property
    def working(self) -> int:
        return self._line.working

    @property
    def delayed(self) -> int:
        return self._line.delayed

    @property
    def failing(self) -> int:
        """Keys whose last pass failed."""
        return len(self._failing)

    def add(self, key: K) -> None:
        """Look at `key` as soon as a worker is free."""
        self._line.add(key, _now())
        self._wakeup.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Look at `key` in `seconds`; of several such wishes the earliest wins."""
        if seconds <= 0:
            self.add(key)
            return
        self._line.add_at(key, _now() + seconds)
        self._arm()

    def retry(self, key: K) -> float:
        """`key` failed once more: look again after its backoff, which is returned."""
        first, most = self._retry_initial_seconds, self._retry_ceiling_seconds
        fresh = Backoff(first, most, self._rng, spread=self._retry_spread)
        seconds = self._failing.setdefault(key, fresh).next_seconds()
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: K) -> None:
        """`key` is well: its next failure starts with the shortest backoff."""
        self._failing.pop(key, None)

    async def get(self) -> K | None:
        """The next key, which is the caller's until `done`; None once shut down and served."""
        while (key := self._line.take(_now())) is None:
            if self._line.exhausted:
                return None
            self._arm()
            self._wakeup.clear()
            await self._wakeup.wait()
        return key

    def done(self, key: K) -> None:
        """Give `key` back; it comes into line again if it was added meanwhile."""
        self._line.done(key, _now())
        self._wakeup.set()
        self._returned.set()

    def shutdown(self, *, drain: bool = False) -> None:
        """Take in nothing more; `drain` still serves what is in line, else it is dropped."""
        self._line.close(drain=drain)
        self._failing.clear()
        self._disarm()
        self._wakeup.set()
        self._returned.set()

    async def join(self) -> None:
        """Wait until the queue is shut down, served, and no worker holds a key."""
        while self._line.working or not self._line.exhausted:
            self._returned.clear()
            await self._returned.wait()

    def _arm(self) -> None:
        due = self._line.next_due()
        if due is None or (self._timer is not None and self._timer.when() <= due):
            return
        self._disarm()
        self._timer = asyncio.get_running_loop().call_at(due, self._ring)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        if self._line.promote(_now()):
            self._wakeup.set()
        self._arm()


def _now() -> float:
    return asyncio.get_running_loop().time()
