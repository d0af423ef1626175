"""Time as a value that is handed in.

Durations are measured with `monotonic`, never with `now`: a wall clock may jump a
day. Tests hand in a clock of their own.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

# A suspended machine does not hold its lease: where the kernel counts sleep, so do we.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """What may be asked about time."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(_STEADY)
