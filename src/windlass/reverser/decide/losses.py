"""The loss watermark: when admission records may have gone missing (ATT-3).

Kept as a few disjoint intervals of monotonic time. Where intervals must be given up for
room, neighbours are joined: that can only widen a loss, so an author may become
unresolved by it but never wrong.
"""

from __future__ import annotations

from bisect import bisect_left

_GRAIN_SECONDS = 0.05
_MAX_INTERVALS = 256


class Losses:
    """Closed intervals, sorted and disjoint."""

    def __init__(self) -> None:
        self._starts: list[float] = []
        self._ends: list[float] = []

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, start: float, end: float) -> None:
        """Remember that records between `start` and `end` may be missing."""
        start, end = min(start, end), max(start, end)
        low = bisect_left(self._ends, start - _GRAIN_SECONDS)
        high = low
        while high < len(self._starts) and self._starts[high] <= end + _GRAIN_SECONDS:
            start, end = min(start, self._starts[high]), max(end, self._ends[high])
            high += 1
        self._starts[low:high] = [start]
        self._ends[low:high] = [end]
        if len(self._starts) > _MAX_INTERVALS:
            del self._starts[1], self._ends[0]

    def touch(self, start: float, end: float) -> bool:
        """Whether any loss falls between `start` and `end`."""
        at = bisect_left(self._ends, start)
        return at < len(self._starts) and self._starts[at] <= end

    def forget(self, before: float) -> None:
        """Drop what ended before that time."""
        gone = bisect_left(self._ends, before)
        del self._starts[:gone], self._ends[:gone]
