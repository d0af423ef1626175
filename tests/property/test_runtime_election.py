"""Two candidates, one lease, any interleaving: never two holders."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import looptime
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.runtime.fakes import FakeApi, LoopClock
from windlass.runtime.election import Candidacy, Record, Step, Terms
from windlass.runtime.lease import LeaderElection

TERMS = Terms(15, 10, 2)
SPANS = (0.1, 1.0, 2.0, 5.0, 9.9, 10.0, 14.9, 15.0, 40.0)


@dataclass
class Write:
    """A request in flight: the version it was decided on, and when it was sent."""

    based_on: str
    started: float
    holder: str
    landed: Record | None = None
    is_over: bool = False


class Election:
    """Every part of a round is a step of its own, so a pause may fall between any two.

    A candidate that takes no step while time goes by is a paused one. Requests and
    answers may take any time, or get lost.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.version = self.born = 0
        self.lease: Record | None = None
        self.candidates = [Candidacy(name, TERMS) for name in ("one", "two")]
        self.writes: list[Write | None] = [None, None]
        self.late: list[Write] = []
        self.read: list[tuple[Record | None] | None] = [None, None]

    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    def reads_lease(self, who: int) -> None:
        """Reads the lease; a response seen later equals a later read."""
        if self.writes[who] is None:
            self.candidates[who].observe(self.lease, self.now)

    def server_reads(self, who: int) -> None:
        """The server handles a GET; the response is in flight, and may be old when it is seen."""
        self.read[who] = (self.lease,)

    def old_answer_is_seen(self, who: int) -> None:
        answer, self.read[who] = self.read[who], None
        if answer is not None and self.writes[who] is None:
            self.candidates[who].observe(answer[0], self.now)

    def does_a_round(self, who: int) -> None:
        """Reads, decides, writes and gets its response, all at once."""
        self.reads_lease(who)
        self.sends(who)
        self.write_lands(who)
        self.answer_of_the_write_is_seen(who)

    def sends(self, who: int) -> None:
        """Decides and sends a write, if the rules allow one."""
        one = self.candidates[who]
        one.lapse(self.now)
        if self.writes[who] is not None or one.step(self.now) is Step.WAIT:
            return
        self.read[who] = None
        based_on = one.record.version if one.record is not None else ""
        self.writes[who] = Write(based_on, self.now, one.identity)

    def write_lands(self, who: int) -> None:
        write = self.writes[who]
        if write is not None and not write.is_over:
            self._land(write)

    def answer_of_the_write_is_seen(self, who: int) -> None:
        write = self.writes[who]
        if write is None or not write.is_over:
            return
        self.writes[who] = None
        if write.landed is not None:
            self.candidates[who].wrote(write.landed, write.started, self.now)

    def gives_up_on_its_write(self, who: int) -> None:
        """A timeout: whether the write was applied, or will be, is unknown."""
        write, self.writes[who] = self.writes[who], None
        if write is not None:
            self.late.append(write)

    def a_late_write_lands(self, who: int) -> None:
        del who
        if self.late and not self.late[0].is_over:
            self._land(self.late[0])
        del self.late[:1]

    def releases(self, who: int) -> None:
        """Resigns, empties the lease if it is still its own, and stands anew under a new name.

        An answer that was on its way still reaches the one that resigned.
        """
        one = self.candidates[who]
        one.resign()
        if self.lease is not None and self.lease.holder == one.identity:
            self._land(Write(self.lease.version, self.now, ""))
        self.answer_of_the_write_is_seen(who)
        assert not one.held(self.now)
        self.gives_up_on_its_write(who)
        self.read[who] = None
        self.born += 1
        self.candidates[who] = Candidacy(f"heir-{self.born}", TERMS)

    def _land(self, write: Write) -> None:
        write.is_over = True
        if write.based_on == (self.lease.version if self.lease is not None else ""):
            self.version += 1
            self.lease = Record(write.holder, TERMS.duration_seconds, str(self.version))
            write.landed = self.lease

    def check(self) -> None:
        """At most one holds the lease; a leader holds it."""
        holders = [one.identity for one in self.candidates if one.held(self.now)]
        assert len(holders) <= 1, f"both hold the lease at {self.now}"
        for one in self.candidates:
            assert not one.leading(self.now) or one.held(self.now)


def walk(rng: random.Random, steps: int, kind: type[Election] = Election) -> None:
    """A random interleaving; rounds and reads are frequent, faults are rare."""
    it = kind()
    moves: list[tuple[int, Callable[[int], None]]] = [
        (12, lambda _: it.time_passes(rng.choice(SPANS))),
        (6, it.does_a_round),
        (4, it.reads_lease),
        (3, it.sends),
        (3, it.write_lands),
        (3, it.answer_of_the_write_is_seen),
        (2, it.server_reads),
        (2, it.old_answer_is_seen),
        (1, it.gives_up_on_its_write),
        (1, it.a_late_write_lands),
        (1, it.releases),
    ]
    weights = [weight for weight, _ in moves]
    for _, move in rng.choices(moves, weights, k=steps):
        move(rng.randrange(2))
        it.check()


@given(seed=st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_no_interleaving_makes_two_holders(seed: int) -> None:
    """Pauses shorter and longer than the lease, lost and late requests: one holder at most."""
    rng = random.Random(seed)
    for _ in range(100):
        walk(rng, 60)


def test_the_walks_include_changes_of_leadership() -> None:
    """The model is not vacuous: leadership changes in many of its walks."""
    duration: Counter[str] = Counter()

    class Counting(Election):
        def _land(self, write: Write) -> None:
            before = self.lease
            super()._land(write)
            if write.landed is not None and before is not None and write.holder:
                duration["kept" if before.holder == write.holder else "changed"] += 1

    rng = random.Random(7)
    for _ in range(200):
        walk(rng, 60, Counting)
    assert duration["kept"] > 100
    assert duration["changed"] > 100


class PausedApi(FakeApi):
    """A client that pauses now and then, before or after the server acts."""

    def __init__(self, shared: FakeApi, rng: random.Random, pauses: list[float]) -> None:
        super().__init__()
        self.objects = shared.objects
        self._shared = shared
        self._rng = rng
        self._pauses = pauses

    async def _begin(self, verb: str, name: str) -> None:
        self.version = self._shared.version
        await asyncio.sleep(self._rng.choice(self._pauses))
        self.version = self._shared.version
        await super()._begin(verb, name)

    async def _store(
        self, position: tuple[str, str, str], obj: dict[str, object]
    ) -> dict[str, object]:
        self._shared.version += 1
        self.version = self._shared.version
        self.answer_latency = self._rng.choice(self._pauses)
        return await super()._store(position, obj)


@given(
    seed=st.integers(0, 10_000),
    pauses=st.lists(st.sampled_from([0.0, 0.05, 1.0, 3.0, 6.0, 16.0]), min_size=1, max_size=5),
)
@settings(max_examples=25, deadline=None)
def test_real_candidates_never_lead_together(seed: int, pauses: list[float]) -> None:
    """Two running candidates with slow connections and restarts: at most one holds."""
    rng = random.Random(seed)
    shared = FakeApi()

    def candidate(name: str) -> LeaderElection:
        return LeaderElection(
            PausedApi(shared, rng, [0.0, *pauses]),
            namespace="ns",
            name="lease",
            identity=name,
            clock=LoopClock(),
            rng=rng,
        )

    async def scenario() -> None:
        candidates = [candidate("one"), candidate("two")]
        tasks = [asyncio.create_task(one.run()) for one in candidates]
        for round_ in range(120):
            await asyncio.sleep(rng.uniform(0.1, 1.5))
            assert [one.held(0) for one in candidates].count(True) <= 1
            if rng.random() < 0.02:
                gone = rng.randrange(2)
                tasks[gone].cancel()
                if rng.random() < 0.5:
                    await candidates[gone].release()
                candidates[gone] = candidate(f"again-{round_}")
                tasks[gone] = asyncio.create_task(candidates[gone].run())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    loop = looptime.new_event_loop(start=0)
    try:
        loop.run_until_complete(scenario())
    finally:
        loop.close()
