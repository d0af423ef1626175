"""Leadership over an API server in memory, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

import pytest

from tests.unit.runtime.fakes import FakeApi, LoopClock
from windlass.kube.errors import Unavailable
from windlass.objects.resources import LEASES
from windlass.runtime.lease import LeaderElection

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

LEASE_KEY = ("leases", "system", "windlass-leader")


class StoppableClock(LoopClock):
    """A clock that may jump, as a process sees it after SIGSTOP."""

    def __init__(self) -> None:
        self.jumped = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.jumped


def new_candidate(
    api: FakeApi,
    identity: str,
    *,
    holder_is_dead: Callable[[str], bool] = lambda _: False,
    clock: LoopClock | None = None,
) -> LeaderElection:
    """A candidate for the lease."""
    return LeaderElection(
        api,
        namespace="system",
        name="windlass-leader",
        identity=identity,
        holder_is_dead=holder_is_dead,
        clock=clock or LoopClock(),
    )


def spec(api: FakeApi) -> dict[str, Any]:
    """The spec of the lease."""
    lease_spec: dict[str, Any] = api.objects[LEASE_KEY]["spec"]
    return lease_spec


def now() -> float:
    """The virtual time."""
    return asyncio.get_running_loop().time()


class Running:
    """Candidates that run while the block lasts."""

    def __init__(self, *candidates: LeaderElection) -> None:
        self.candidates = candidates
        self.tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self.tasks = [asyncio.create_task(one.run()) for one in self.candidates]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_the_first_creates_and_leads() -> None:
    """An absent lease is created with all fields that people read."""
    api = FakeApi()
    one = new_candidate(api, "one")
    assert not one.held()
    async with Running(one):
        await one.acquired.wait()
        assert one.held()
        assert not one.lost.is_set()
        assert one.holder == "one"
    assert spec(api)["holderIdentity"] == "one"
    assert spec(api)["leaseDurationSeconds"] == 15
    assert spec(api)["leaseTransitions"] == 0
    assert spec(api)["renewTime"].endswith("Z")


async def test_a_leader_renews_with_one_request_each_time() -> None:
    """Idle load: one write per retry period, no reads."""
    api = FakeApi()
    one = new_candidate(api, "one")
    async with Running(one):
        await one.acquired.wait()
        api.calls.clear()
        await asyncio.sleep(20.5)
        assert one.held()
    assert {verb for verb, _ in api.calls} == {"replace"}
    assert len(api.calls) == 10


async def test_a_second_waits_and_takes_over_after_the_first_dies() -> None:
    """The lease of a dead holder is taken after its duration, and the transition is counted."""
    api = FakeApi()
    one, two = new_candidate(api, "one"), new_candidate(api, "two")
    async with Running(one):
        await one.acquired.wait()
        async with Running(two):
            await asyncio.sleep(60)
            assert not two.acquired.is_set()
    died = now()
    async with Running(two):
        await two.acquired.wait()
    assert 13 <= now() - died <= 20
    assert spec(api)["leaseTransitions"] == 1


async def test_release_frees_the_lease_at_once() -> None:
    """The next candidate need not wait for the expiry, and the releaser does not take it back."""
    api = FakeApi()
    one, two = new_candidate(api, "one"), new_candidate(api, "two")
    async with Running(one, two) as running:
        await asyncio.wait(
            [asyncio.create_task(it.acquired.wait()) for it in (one, two)],
            return_when=asyncio.FIRST_COMPLETED,
        )
        first, second = (one, two) if one.acquired.is_set() else (two, one)
        released = now()
        await first.release()
        assert not first.held()
        assert first.lost.is_set()
        assert spec(api)["holderIdentity"] == ""
        await second.acquired.wait()
        assert now() - released <= 2.5
        await asyncio.sleep(30)
        assert spec(api)["holderIdentity"] == second.identity
        assert sum(task.done() for task in running.tasks) == 1
        for waiter in asyncio.all_tasks() - set(running.tasks) - {asyncio.current_task()}:
            waiter.cancel()  # type: ignore[union-attr]


async def test_a_follower_releases_nothing() -> None:
    """A follower that stops does not touch the leader's lease."""
    api = FakeApi()
    one, two = new_candidate(api, "one"), new_candidate(api, "two")
    await one.attempt()
    await two.attempt()
    await two.release()
    assert spec(api)["holderIdentity"] == "one"


async def test_release_survives_a_write_in_between() -> None:
    """After a conflict the lease is read again and released."""
    api = FakeApi()
    one = new_candidate(api, "one")
    await one.attempt()
    api.put(LEASES, {**api.objects[LEASE_KEY], "labels": {"x": "y"}})
    await one.release()
    assert spec(api)["holderIdentity"] == ""


async def test_release_while_a_renewal_is_in_flight() -> None:
    """The response after the release does not lead again, and the lease is emptied."""
    api = FakeApi()
    one = new_candidate(api, "one")
    await one.attempt()
    api.latency = 1
    renewing = asyncio.create_task(one.attempt())
    await asyncio.sleep(0.5)
    await one.release()
    await renewing
    assert not one.held(0)
    assert not one.acquired.is_set()
    assert one.lost.is_set()
    assert spec(api)["holderIdentity"] == ""


async def test_release_without_a_server_does_not_fail() -> None:
    """The lease then expires."""
    api = FakeApi()
    one = new_candidate(api, "one")
    await one.attempt()
    api.faults = [Unavailable(0, "Unreachable", "m")]
    await one.release()
    assert not one.held(0)


async def test_a_dead_local_holder_is_replaced_at_once() -> None:
    """A restarted process need not wait for the lease of its predecessor."""
    api = FakeApi()
    await new_candidate(api, "desk_1").attempt()
    two = new_candidate(api, "desk_2", holder_is_dead=lambda holder: holder == "desk_1")
    await two.attempt()
    assert two.held()


async def test_own_identity_is_taken_at_once() -> None:
    """A restart with the same identity continues its lease."""
    api = FakeApi()
    await new_candidate(api, "one").attempt()
    restarted = new_candidate(api, "one")
    assert not restarted.held()
    await restarted.attempt()
    assert restarted.held()
    assert spec(api)["leaseTransitions"] == 0


async def test_a_leader_cut_off_gives_up_before_others_take_over() -> None:
    """Failed renewals end leadership at the renew deadline."""
    api = FakeApi()
    one = new_candidate(api, "one")
    async with Running(one):
        await one.acquired.wait()
        api.faults = [Unavailable(503, "Unavailable", "m")] * 1000
        start = now()
        await one.lost.wait()
        assert now() - start <= 10
        assert not one.held(0)
        assert one.failures > 0
        assert not one.answered
        api.faults.clear()
        await one.acquired.wait()
        assert one.held()
        assert one.answered


async def test_a_hanging_server_does_not_keep_a_leader() -> None:
    """Requests without a response end at the deadline as well."""
    api = FakeApi()
    one = new_candidate(api, "one")
    async with Running(one):
        await one.acquired.wait()
        api.latency = 1e6
        start = now()
        await one.lost.wait()
        assert now() - start <= 12


async def test_after_a_pause_nothing_is_held() -> None:
    """A process that was stopped past its lease stops leading before any request."""
    api = FakeApi()
    clock = StoppableClock()
    one = new_candidate(api, "one", clock=clock)
    await one.attempt()
    assert one.held()
    clock.jumped += 14
    assert one.held(0)
    assert not one.held()
    clock.jumped += 1
    assert not one.held(0)
    calls = len(api.calls)
    assert one.acquired.is_set()
    await one.attempt()
    assert api.calls[calls] == ("get", "windlass-leader")
    assert one.held()


async def test_after_a_pause_another_may_have_taken_it() -> None:
    """The resumed process reads the other holder's record and follows."""
    api = FakeApi()
    clock = StoppableClock()
    one, two = new_candidate(api, "one", clock=clock), new_candidate(api, "two")
    await one.attempt()
    await two.attempt()
    await asyncio.sleep(15)
    await two.attempt()
    assert two.held()
    await one.attempt()
    assert not one.held(0)
    assert one.lost.is_set()
    assert one.holder == "two"


async def test_a_lost_response_leaves_the_lease_usable() -> None:
    """A write whose response was lost is recognized as our own."""
    api = FakeApi()
    one = new_candidate(api, "one")
    api.answer_latency = 1e6
    await one.attempt()
    assert not one.held(0)
    assert spec(api)["holderIdentity"] == "one"
    api.answer_latency = 0
    await one.attempt()
    assert one.held()


async def test_of_two_simultaneous_candidates_one_loses() -> None:
    """The resourceVersion decides; the loser gets a conflict and follows."""
    api = FakeApi()
    await new_candidate(api, "old").attempt()
    one, two = new_candidate(api, "one"), new_candidate(api, "two")
    await asyncio.gather(one.attempt(), two.attempt())
    await asyncio.sleep(15)
    api.latency = 1
    await asyncio.gather(one.attempt(), two.attempt())
    assert [one.held(), two.held()].count(True) == 1


async def test_a_deleted_lease_is_not_held() -> None:
    """A leader whose lease was deleted stops at its next renewal and becomes a candidate again."""
    api = FakeApi()
    one = new_candidate(api, "one")
    await one.attempt()
    api.objects.clear()
    await one.attempt()
    assert not one.held(0)
    await one.attempt()
    assert one.held()
