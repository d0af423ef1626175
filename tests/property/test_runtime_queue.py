"""The work queue under arbitrary use."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import looptime
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from windlass.runtime.queue import KeyedQueue, KeyOrder

KEYS = st.sampled_from("abcde")
SPANS = st.integers(0, 20).map(float)


class Lines(RuleBasedStateMachine):
    """A key order against its model: which reconciles are due since when, and in which order."""

    @initialize()
    def begin(self) -> None:
        self.line: KeyOrder[str] = KeyOrder()
        self.now = 0.0
        self.owed: set[str] = set()
        self.due: dict[str, float] = {}
        self.working: set[str] = set()
        self.order: list[str] = []

    def _request(self, key: str) -> None:
        self.owed.add(key)
        if key not in self.working and key not in self.order:
            self.order.append(key)

    def _ripen(self) -> None:
        ripe = sorted((due, key) for key, due in self.due.items() if due <= self.now)
        for _, key in ripe:
            del self.due[key]
            self._request(key)

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.line.promote(self.now)
        self._ripen()
        self.line.add(key)
        self._request(key)

    @rule(key=KEYS, seconds=SPANS.filter(bool))
    def add_at(self, key: str, seconds: float) -> None:
        # A fraction of its own tells apart what is due at the same moment.
        due = self.now + seconds + "abcde".index(key) / 8
        self.line.add_at(key, due)
        self.due[key] = min(due, self.due.get(key, due))

    @rule(seconds=SPANS)
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        self._ripen()
        key = self.line.take(self.now)
        if key is None:
            assert not self.order, "something stood in line and was not handed out"
            return
        assert key not in self.working, "two workers for one key"
        assert key == self.order.pop(0), "out of order"
        assert key in self.owed, "nobody asked for this pass"
        self.owed.discard(key)
        self.working.add(key)

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.line.promote(self.now)
        self._ripen()
        self.line.done(key)
        self.working.discard(key)
        if key in self.owed:
            self.order.append(key)

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "line"):
            return
        assert self.line.working == len(self.working)
        assert self.line.delayed <= len(self.due)

    def teardown(self) -> None:
        if not hasattr(self, "line"):
            return
        for key in self.working:
            self.line.done(key)
        self.now += 100
        while (key := self.line.take(self.now)) is not None:
            self.owed.discard(key)
            self.due.pop(key, None)
            self.line.done(key)
        assert not self.owed, f"lost: {self.owed}"
        assert not self.due, f"never came: {self.due}"
        assert self.line.depth == self.line.working == self.line.delayed == 0


Lines.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLines = Lines.TestCase


@st.composite
def workloads(draw: st.DrawFn) -> list[tuple[float, str, float]]:
    """Requests: when they are made, for which key, with which delay."""
    request = st.tuples(st.integers(0, 60).map(float), KEYS, st.integers(0, 30).map(float))
    return sorted(draw(st.lists(request, max_size=40)))


@given(workload=workloads(), seed=st.integers(0, 1000), count=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_real_workers_lose_nothing(
    workload: list[tuple[float, str, float]], seed: int, count: int
) -> None:
    """Every request is followed by a reconcile that starts after it; one per key at a time."""
    passes: list[tuple[str, float]] = []
    at_work: Counter[str] = Counter()
    rng = random.Random(seed)

    async def worker(queue: KeyedQueue[str]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            key = await queue.get()
            at_work[key] += 1
            assert at_work[key] == 1, "two passes of one key at once"
            passes.append((key, loop.time()))
            await asyncio.sleep(rng.choice([0, 0.5, 7]))
            at_work[key] -= 1
            if rng.random() < 0.1:
                queue.retry(key)
            queue.done(key)

    async def scenario() -> None:
        queue: KeyedQueue[str] = KeyedQueue(rng=rng)
        workers = [asyncio.create_task(worker(queue)) for _ in range(count)]
        loop = asyncio.get_running_loop()
        start = loop.time()
        for at, key, later in workload:
            await asyncio.sleep(start + at - loop.time())
            queue.add_after(key, later)
        await asyncio.sleep(2000)
        for task in workers:
            task.cancel()
        ended = await asyncio.gather(*workers, return_exceptions=True)
        assert all(isinstance(error, asyncio.CancelledError) for error in ended), ended
        for at, key, later in workload:
            began = [when - start for name, when in passes if name == key]
            assert any(when >= at for when in began), f"{key} was lost"
            assert any(at <= when <= at + later + 2000 for when in began)

    loop = looptime.new_event_loop(start=0)
    try:
        loop.run_until_complete(scenario())
    finally:
        loop.close()
