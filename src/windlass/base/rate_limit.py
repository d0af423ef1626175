"""A rate limit with a burst: the first few come at once, then one per interval.

Its state is a single time, the one at which a steady pace would have caught up with all that
was done. What is left unused comes back by itself, so an idle limit starts full again.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class RateLimit:
    """`burst` at once, then one per `interval_seconds`; times are monotonic."""

    interval_seconds: float
    burst: int = 1
    _caught_up: float = float("-inf")
    """When one per interval would have done as much as was done."""

    def wait_seconds(self, now: float) -> float:
        """How long the next one has to wait."""
        early = (self.burst - 1) * self.interval_seconds
        return max(0.0, self._caught_up - early - now)

    def count(self, now: float) -> None:
        """One was done."""
        self._caught_up = max(self._caught_up, now) + self.interval_seconds
