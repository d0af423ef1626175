"""How long to wait before the next try.

Doubling with full jitter between a floor of zero and a ceiling. A `Backoff` counts
failures; only `healthy` resets it, so one good answer among failures does not.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Failures so far, and the delay that follows from them."""

    initial_seconds: float
    ceiling_seconds: float
    rng: random.Random = field(default_factory=random.Random)
    failures: int = 0

    def next_seconds(self) -> float:
        """Count one more failure; how long to wait for the next try, at least half of the step."""
        step = min(self.ceiling_seconds, self.initial_seconds * 2 ** min(self.failures, 32))
        self.failures += 1
        return self.rng.uniform(step / 2, step)

    def healthy(self) -> None:
        self.failures = 0
