"""A rate limit allows bursts and never more than its rate."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windlass.base.clock import RateLimit

quarters = st.integers(0, 20).map(lambda count: count / 4)
steps = st.lists(quarters, max_size=40)


@given(burst=st.integers(1, 4), steps=steps)
def test_never_more_than_burst_and_rate(burst: int, steps: list[float]) -> None:
    """In any interval at most the burst and what the rate adds."""
    limit, now, done = RateLimit(2.0, burst), 100.0, list[float]()
    for step in steps:
        now += step
        now += limit.wait_seconds(now)
        limit.count(now)
        done.append(now)
    for first, start in enumerate(done):
        for last in range(first, len(done)):
            assert last - first + 1 <= burst + (done[last] - start) / 2.0 + 1e-6


@given(burst=st.integers(1, 4), steps=steps, rest=st.integers(8, 100))
def test_an_idle_time_refills_the_burst(burst: int, steps: list[float], rest: int) -> None:
    """After the intervals of a whole burst, a whole burst is allowed at once."""
    limit, now = RateLimit(2.0, burst), 100.0
    for step in steps:
        now += step + limit.wait_seconds(now + step)
        limit.count(now)
    now += rest
    for _ in range(burst):
        assert limit.wait_seconds(now) == 0.0
        limit.count(now)
    assert limit.wait_seconds(now) == 2.0
