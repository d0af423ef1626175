"""How long to wait before the next try.

Doubling up to a ceiling; of each step a random part is waited, by default half or more. A
`Backoff` counts failures; only `healthy` resets it, so one good answer among failures does
not.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

HALF = (0.5, 1.0)
"""Which part of a step is waited, at least and at most."""


@dataclass(slots=True)
class Backoff:
    """Failures so far, and the delay that follows from them."""

    initial_seconds: float
    ceiling_seconds: float
    rng: random.Random = field(default_factory=random.Random)
    failures: int = 0
    spread: tuple[float, float] = HALF

    def next_seconds(self) -> float:
        """Count one more failure; how long to wait for the next try."""
        step = min(self.ceiling_seconds, self.initial_seconds * 2 ** min(self.failures, 32))
        self.failures += 1
        least, most = self.spread
        return self.rng.uniform(step * least, step * most)

    def healthy(self) -> None:
        self.failures = 0
