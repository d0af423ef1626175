"""Rules of leader election by a Lease, without any I/O; `lease` carries them out.

States of a candidate, and what moves it:

| state     | observes                                      | does    | becomes   |
|-----------|-----------------------------------------------|---------|-----------|
| FOLLOWING | no lease                                      | CREATE  | FOLLOWING |
| FOLLOWING | a lease without holder (released)             | TAKE    | FOLLOWING |
| FOLLOWING | a lease of its own identity                   | TAKE    | FOLLOWING |
| FOLLOWING | a holder known to be dead                     | TAKE    | FOLLOWING |
| FOLLOWING | a record unchanged here for its duration      | TAKE    | FOLLOWING |
| FOLLOWING | any other lease                               | WAIT    | FOLLOWING |
| FOLLOWING | its own write succeeded, and is still fresh   | -       | LEADING   |
| LEADING   | its own record                                | RENEW   | LEADING   |
| LEADING   | another holder's record, or none              | -       | FOLLOWING |
| LEADING   | no successful renewal for the renew deadline  | -       | FOLLOWING |
| any       | release                                       | -       | RESIGNED  |
| RESIGNED  | anything, also the answer to an older write   | -       | RESIGNED  |

Why two candidates never lead at once: the holder counts from the moment *before* its
last successful write was sent; another one counts from the moment *after* it first
saw that write. Both count the same duration on monotonic clocks, so the holder's time
ends first, also if it was paused meanwhile. Wall clocks are written into the lease for
people and never read. Every write is conditional on the version it was decided on, so
of two that take at once one gets a conflict. (A lease that a person deletes is free at
once: its holder learns of it at its next renewal.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class Step(Enum):
    """What to do with the lease now."""

    CREATE = "create"
    TAKE = "take"
    RENEW = "renew"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds: duration of a lease, renew deadline of a leader, period between attempts."""

    duration_seconds: int = 15
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration_seconds > self.renew_seconds > self.retry_seconds > 0:
            raise ValueError(
                "a lease needs duration > renew deadline > retry period > 0, got "
                f"{self.duration_seconds} > {self.renew_seconds} > {self.retry_seconds}"
            )


@dataclass(frozen=True, slots=True)
class Record:
    """Holder and duration of a lease; `version` changes with every write."""

    holder: str
    duration_seconds: int
    version: str


def assume_alive(holder: str) -> bool:
    """The default where nothing is known about other holders: none is dead."""
    del holder
    return False


class Candidacy:
    """State of one candidate; every method gets the monotonic time `now`."""

    def __init__(
        self,
        identity: str,
        terms: Terms,
        *,
        holder_is_dead: Callable[[str], bool] = assume_alive,
    ) -> None:
        if not identity:
            raise ValueError("a candidate needs an identity: an empty holder means released")
        self.identity = identity
        self.terms = terms
        self._holder_is_dead = holder_is_dead
        # The lease as last read or written; None where it does not exist.
        self._record: Record | None = None
        # When `_record` was first observed, monotonic; another holder's time counts from here.
        self._observed_at = 0.0
        # When our last successful write was sent, monotonic; None while not leading.
        self._renewed_at: float | None = None
        # Set by `resign`, never cleared.
        self._resigned = False

    @property
    def resigned(self) -> bool:
        return self._resigned

    @property
    def record(self) -> Record | None:
        return self._record

    def leading(self, now: float) -> bool:
        """Whether this candidate is LEADING: renewed within the renew deadline."""
        return self._renewed_at is not None and now < self._renewed_at + self.terms.renew_seconds

    def held(self, now: float, margin_seconds: float = 0.0) -> bool:
        """Whether the lease is ours for at least `margin_seconds` more."""
        if self._renewed_at is None:
            return False
        return now < self._renewed_at + self.terms.duration_seconds - margin_seconds

    def give_up_at(self) -> float | None:
        """The end of the renew deadline, monotonic; None while not leading."""
        if self._renewed_at is None:
            return None
        return self._renewed_at + self.terms.renew_seconds

    def observe(self, record: Record | None, now: float) -> None:
        """Take over the lease as it was read; `now` is not before the answer came."""
        if record != self._record:
            self._record, self._observed_at = record, now
        if record is None or record.holder != self.identity:
            self._renewed_at = None

    def wrote(self, record: Record, started: float, now: float) -> None:
        """Take over our write, sent at `started`, which succeeded and made `record`."""
        self._record, self._observed_at = record, now
        # An answer that took longer than the renew deadline proves no leadership any more.
        if now < started + self.terms.renew_seconds and not self._resigned:
            self._renewed_at = started

    def lapse(self, now: float) -> None:
        """Stop leading if the renew deadline passed without a renewal."""
        if not self.leading(now):
            self._renewed_at = None

    def resign(self) -> None:
        """Stop leading at once and for good; leading again needs a new candidacy."""
        self._renewed_at = None
        self._resigned = True

    def step(self, now: float) -> Step:
        """The next step, by the table above."""
        record = self._record
        if self._resigned:
            return Step.WAIT
        if record is None:
            return Step.CREATE
        if record.holder == self.identity:
            return Step.RENEW if self.leading(now) else Step.TAKE
        if not record.holder or self._expired(record, now) or self._holder_is_dead(record.holder):
            return Step.TAKE
        return Step.WAIT

    def _expired(self, record: Record, now: float) -> bool:
        duration = record.duration_seconds or self.terms.duration_seconds
        return now >= self._observed_at + duration
