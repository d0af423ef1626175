"""When something that failed is tried again.

A failure is left alone until its time has come or something changed that it may depend on.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from windlass.base.clock import Backoff, Clock
from windlass.gateways.agent.telling import Condition

FIRST_SECONDS = 5.0
LAST_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Failure:
    """What did not work, for which view, and until when it is left alone."""

    key: tuple[object, ...]
    until: float
    condition: Condition


class Retries:
    """The last failure, if there is one."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._backoff = Backoff(FIRST_SECONDS, LAST_SECONDS, rng)
        self.failure: Failure | None = None

    def failed(self, key: tuple[object, ...], condition: Condition, after: float | None) -> float:
        """Note a failure; how long it is left alone."""
        if self.failure is not None and self.failure.key != key:
            self._backoff.healthy()
        seconds = after if after is not None else self._backoff.next_seconds()
        self.failure = Failure(key, self._clock.monotonic() + seconds, condition)
        return seconds

    def succeeded(self) -> None:
        self._backoff.healthy()
        self.failure = None

    def wait_seconds(self, key: tuple[object, ...]) -> float:
        """How long a try for `key` has to wait."""
        if self.failure is None or self.failure.key != key:
            return 0.0
        return max(0.0, self.failure.until - self._clock.monotonic())

    def now(self) -> None:
        """Let the next try come at once."""
        if self.failure is not None:
            self.failure = Failure(self.failure.key, 0.0, self.failure.condition)
