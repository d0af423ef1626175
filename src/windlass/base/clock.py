"""Clocks, durations as users write them, backoff and rate limits.

Durations are measured with `monotonic`, never with `now`: a wall clock may jump a day.
Tests pass a clock of their own. The grammar of durations is that of the CRD patterns, so
whatever the API server lets in parses here, and nothing else does.
"""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

# A suspended machine must lose its lease, so time in suspend counts where the kernel does so.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Wall clock and monotonic clock."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(_STEADY)


DURATION_PATTERN = r"^([0-9]+(ms|s|m|h))+$"

_PART = re.compile(r"([0-9]+)(ms|s|m|h)")
_WHOLE = re.compile(DURATION_PATTERN)
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_MAX_DURATION_CHARS = 32


def parse_duration(text: str) -> float:
    """The length of a duration in seconds; ValueError says what is wrong with it."""
    if len(text) > _MAX_DURATION_CHARS or not _WHOLE.fullmatch(text):
        raise ValueError(
            f"invalid duration {text[:_MAX_DURATION_CHARS]!r}; use for example 90s, 5m or 1h30m"
        )
    return sum(int(count) * _UNIT_SECONDS[unit] for count, unit in _PART.findall(text))


HALF = (0.5, 1.0)
"""The smallest and largest part of a backoff step that is waited."""


@dataclass(slots=True)
class Backoff:
    """Exponential backoff with jitter: failures so far, and the delay that follows."""

    initial_seconds: float
    ceiling_seconds: float
    rng: random.Random = field(default_factory=random.Random)
    failures: int = 0
    spread: tuple[float, float] = HALF

    def next_seconds(self) -> float:
        """Count one more failure; returns the seconds to wait for the next attempt."""
        step = min(self.ceiling_seconds, self.initial_seconds * 2 ** min(self.failures, 32))
        self.failures += 1
        least, most = self.spread
        return self.rng.uniform(step * least, step * most)

    def healthy(self) -> None:
        self.failures = 0


@dataclass(slots=True)
class RateLimit:
    """`burst` at once, then one per `interval_seconds`; times are monotonic."""

    interval_seconds: float
    burst: int = 1
    _caught_up: float = float("-inf")
    """When one per interval would have reached the number of those counted, monotonic."""

    def wait_seconds(self, now: float) -> float:
        """Seconds until the next one is allowed."""
        early = (self.burst - 1) * self.interval_seconds
        return max(0.0, self._caught_up - early - now)

    def count(self, now: float) -> None:
        """Count one."""
        self._caught_up = max(self._caught_up, now) + self.interval_seconds
