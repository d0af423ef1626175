"""When a window closes and how many commits the next push carries.

Called by the branch worker and the pusher. The first change after a rest is pushed at once, and
bursts coalesce as far as the remote is slow (CMT-1). All times are seconds of a monotonic clock
that the caller reads.

Pure.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

REST_SECONDS = 1.0
"""Time without a push after which the next change does not wait for others."""

_RESTED_QUIET, _RESTED_AGE = 0.05, 0.15
_QUIET_FLOOR, _QUIET_CEILING = 0.1, 0.5
_AGE_FLOOR = 0.5
_WEIGHT = 0.3  # of the newest push in the moving average


@dataclass(frozen=True, slots=True)
class WindowLimits:
    """The ceilings of a window and of each of its commits, from the --git-batch-max-* flags."""

    files: int = 200
    size_bytes: int = 1 << 20
    wait_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class WindowCadence:
    """How long a window waits for quiet and how old it grows, in seconds."""

    quiet: float
    age: float


@dataclass(frozen=True, slots=True)
class PushStride:
    """How many commits the next push carries, and how many pushes in a row lost a race.

    A push of fewer commits is built, sent and checked faster, so other writers have less time
    to come first; the least is one. It grows faster than it shrinks: against a writer who pushes
    at a steady pace, pushes that land and pushes that do not alternate.
    """

    commits: int = sys.maxsize
    lost: int = 0

    def after_race(self, sent: int) -> PushStride:
        """Half as many commits as were `sent`."""
        return PushStride(max(1, sent // 2), self.lost + 1)

    def after_push(self) -> PushStride:
        """Four times as many commits."""
        return PushStride(min(4 * self.commits, sys.maxsize))


def adaptive_cadence(
    opened: float, last_push_end: float | None, push_average: float | None, limits: WindowLimits
) -> WindowCadence:
    """CMT-1: short after a rest, else by the average time that a push takes.

    While a push is under way the caller passes the current time as `last_push_end`.
    """
    if last_push_end is None or opened - last_push_end >= REST_SECONDS:
        return WindowCadence(_RESTED_QUIET, min(_RESTED_AGE, limits.wait_seconds))
    average = push_average or 0.0
    age = min(max(4 * average, _AGE_FLOOR), limits.wait_seconds)
    return WindowCadence(min(max(average, _QUIET_FLOOR), _QUIET_CEILING), age)


def window_closes_at(
    *,
    opened: float,
    last_event: float,
    last_push_end: float | None,
    push_average: float | None,
    files: int,
    size_bytes: int,
    fixed_window: float | None,
    limits: WindowLimits,
) -> float:
    """CMT-1: when a window closes if nothing follows its last event; the past means now.

    A fixed window (`commitWindow`) takes the place of quiet and age, 0 closing it at its
    first event; the ceilings of files and bytes hold in both.
    """
    if files >= limits.files or size_bytes >= limits.size_bytes:
        return last_event
    if fixed_window is not None:
        return opened + fixed_window
    cadence = adaptive_cadence(opened, last_push_end, push_average, limits)
    return min(last_event + cadence.quiet, opened + cadence.age)


def update_push_average(average: float | None, seconds: float) -> float:
    """The moving average after a push that took `seconds`."""
    return seconds if average is None else average + _WEIGHT * (seconds - average)
