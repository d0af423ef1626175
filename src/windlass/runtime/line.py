"""Which key is worked on next: the order of a queue without its waiting.

Pure: the time comes in as `now`, which never goes back.

  A key is in at most one of waiting (in line), working (a worker has it).
  Added while waiting: nothing, the pass to come sees it.
  Added while working: it goes to the end of the line when the work is done, once.
  Added for later: one due time per key, the earliest wins; due means added.

So a key never has two workers, everything that was added is taken after it was
added, and keys are taken in the order in which they came into line.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_SPARE = 64


class Line(Generic[K]):
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
