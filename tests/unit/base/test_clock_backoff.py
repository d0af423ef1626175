"""Backoff doubles, is bounded, and resets only after success."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from windlass.base.clock import Backoff


@given(seed=st.integers(), failures=st.integers(min_value=1, max_value=200))
def test_a_delay_lies_between_half_its_step_and_the_ceiling(seed: int, failures: int) -> None:
    """After any number of failures."""
    backoff = Backoff(0.5, 30.0, random.Random(seed))
    delays = [backoff.next_seconds() for _ in range(failures)]
    steps = [min(30.0, 0.5 * 2**n) for n in range(failures)]
    assert all(step / 2 <= delay <= step for delay, step in zip(delays, steps, strict=True))


def test_success_resets_the_backoff() -> None:
    """The next delay is short again."""
    backoff = Backoff(1.0, 64.0, random.Random(1))
    for _ in range(6):
        backoff.next_seconds()
    backoff.healthy()
    assert backoff.next_seconds() <= 1.0
