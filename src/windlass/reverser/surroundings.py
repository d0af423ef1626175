"""What a branch worker asks of the world around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from windlass.objects.names import Identity, Key
from windlass.reverser.arrival import Arrival
from windlass.reverser.decide.attribution import Verdict
from windlass.reverser.decide.selected import Selected
from windlass.reverser.publisher import Delivery
from windlass.reverser.target import Target
from windlass.runtime.outcome import OutcomeEvent
from windlass.telemetry.reasons import SkipReason


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Questions and messages; none of them waits for Git."""

    may_push: Callable[[], bool]
    seeding: Callable[[Key], bool]
    gone: Callable[[Identity], Awaitable[bool]]
    selected: Callable[[Key], Awaitable[Selected | None]]
    """What the rules of a destination cover; None while that cannot be told."""
    reread: Callable[[Target, Arrival], Awaitable[Arrival | None]]
    destinations: Callable[[], frozenset[str]]
    changed: Callable[[Key], None]
    seen_again: Callable[[Key], None]
    pushed: Callable[[Delivery], None]
    judged: Callable[[Verdict], None]
    skipped: Callable[[Identity, SkipReason], None]
    raced: Callable[[], None]
    took: Callable[[float], None]
    told: Callable[[Key, OutcomeEvent, str], None]
    """An event for a destination; the last argument names the transition."""
