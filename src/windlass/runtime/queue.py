"""Work queue of a controller: coalesces keys, gives each key to at most one worker, backs off.

`KeyOrder` decides which key is worked on next, without waiting and without a clock (the time
comes in as `now`, which never goes back). `KeyedQueue` adds waiting, timers of the running event
loop and a backoff for each failing key. All methods are called on the thread of the loop. A key
that `get` returned belongs to its worker until `done`.

  A key is in at most one of waiting (in line), working (a worker has it).
  Added while waiting: no effect, the coming reconcile sees the change.
  Added while working: it goes to the end of the line when the work is done, once.
  Added for later: one due time per key, the earliest wins; due means added.

So a key never has two workers, and every added key is taken after it was added. Namespaces take
turns, whatever the number of their keys; the keys of one are taken in the order in which they came
into line.
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

_SPARE = 64  # stale rows that the heap of due times may always hold


class KeyOrder(Generic[K]):
    """The order of keys: waiting, being worked on, to be run again, due later."""

    def __init__(self) -> None:
        # Keys in line by namespace, next one first in both; no namespace without keys.
        self._waiting: OrderedDict[str, OrderedDict[K, None]] = OrderedDict()
        # Keys that a worker holds, until `done`.
        self._working: set[K] = set()
        # Keys added while a worker held them; always a subset of `_working`.
        self._again: set[K] = set()
        # The due time of each delayed key, on the same clock as `now`.
        self._due: dict[K, float] = {}
        # (due, sequence number, key) by due time; rows that `_due` contradicts are stale.
        self._heap: list[tuple[float, int, K]] = []
        # Breaks ties in the heap, so that keys are never compared.
        self._count = itertools.count()

    @property
    def depth(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def working(self) -> int:
        return len(self._working)

    @property
    def delayed(self) -> int:
        return len(self._due)

    def next_due(self) -> float | None:
        """The time at which the next delayed key is due; None without delayed keys."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def add(self, key: K) -> None:
        """Bring `key` into line, or have it run again if a worker holds it."""
        if key in self._working:
            self._again.add(key)
        else:
            self._bring_into_line(key)

    def add_at(self, key: K, due: float) -> None:
        """Bring `key` into line at `due`, unless it is due earlier."""
        if self._due.get(key, math.inf) <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._count), key))
        if len(self._heap) > 2 * len(self._due) + _SPARE:
            self._compact()

    def promote(self, now: float) -> int:
        """Bring every due key into line; returns their number."""
        promoted = 0
        while (due := self.next_due()) is not None and due <= now:
            _, _, key = heapq.heappop(self._heap)
            del self._due[key]
            self.add(key)
            promoted += 1
        return promoted

    def take(self, now: float) -> K | None:
        """Move the first key in line to its worker; None if the line is empty."""
        self.promote(now)
        if not self._waiting:
            return None
        namespace, line = self._waiting.popitem(last=False)
        key, _ = line.popitem(last=False)
        if line:
            self._waiting[namespace] = line
        self._working.add(key)
        return key

    def done(self, key: K) -> None:
        """Give `key` back after its work; it comes into line if it was added meanwhile."""
        self._working.remove(key)
        if key in self._again:
            self._again.discard(key)
            self._bring_into_line(key)

    def _bring_into_line(self, key: K) -> None:
        namespace = getattr(key, "namespace", "")
        self._waiting.setdefault(namespace, OrderedDict()).setdefault(key)

    def _compact(self) -> None:
        """Drop stale rows: a key rescheduled over and over must not grow the heap."""
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
        self._order: KeyOrder[K] = KeyOrder()
        # The backoff of each key that failed since its last success.
        self._failing: dict[K, Backoff] = {}
        # Set when a key may have come into line; wakes waiting workers.
        self._wakeup = asyncio.Event()
        # Fires when the next delayed key is due; None while no key is delayed.
        self._timer: asyncio.TimerHandle | None = None

    @property
    def depth(self) -> int:
        """The number of keys in line, without those being worked on or due later."""
        return self._order.depth

    @property
    def working(self) -> int:
        return self._order.working

    @property
    def delayed(self) -> int:
        return self._order.delayed

    @property
    def failing(self) -> int:
        """The number of keys whose last reconcile failed."""
        return len(self._failing)

    def add(self, key: K) -> None:
        """Reconcile `key` as soon as a worker is free."""
        self._order.add(key)
        self._wakeup.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Reconcile `key` in `seconds`; of several such requests the earliest wins."""
        if seconds <= 0:
            self.add(key)
            return
        self._order.add_at(key, _now() + seconds)
        self._start_timer()

    def retry(self, key: K) -> float:
        """Reconcile `key`, which failed, after its next backoff; returns those seconds."""
        initial, ceiling = self._retry_initial_seconds, self._retry_ceiling_seconds
        new_backoff = Backoff(initial, ceiling, self._rng, spread=self._retry_spread)
        seconds = self._failing.setdefault(key, new_backoff).next_seconds()
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: K) -> None:
        """Reset the backoff of `key` after a success."""
        self._failing.pop(key, None)

    async def get(self) -> K:
        """Wait for the next key, the caller's until `done`."""
        while (key := self._order.take(_now())) is None:
            self._start_timer()
            self._wakeup.clear()
            await self._wakeup.wait()
        return key

    def done(self, key: K) -> None:
        """Give `key` back; it is queued again if it was added meanwhile."""
        self._order.done(key)
        self._wakeup.set()

    def _start_timer(self) -> None:
        due = self._order.next_due()
        if due is None or (self._timer is not None and self._timer.when() <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._order.promote(_now()):
            self._wakeup.set()
        self._start_timer()


def _now() -> float:
    return asyncio.get_running_loop().time()
