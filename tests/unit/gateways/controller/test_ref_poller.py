"""When the remote is asked."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.unit.runtime.fakes import ManualClock
from windlass.base.errors import Retryable, Stalled, WindlassError
from windlass.gateways.controller.ref_poller import PollQuery, PollResult, RefPoller
from windlass.git.credentials import ANONYMOUS
from windlass.git.format.refs import ResolvedRef
from windlass.git.format.remote import Remote
from windlass.objects.names import Key
from windlass.runtime.pending_calls import PendingCalls

KEY = Key("a", "site")
REMOTE = Remote.parse("https://h/x")
FOUND = ResolvedRef("a" * 40, "refs/heads/main", "branch")


class _Resolver:
    """Notes how old an answer was allowed to be; fails as told."""

    def __init__(self) -> None:
        self.patience: list[float] = []
        self.errors: list[WindlassError] = []
        self.forgotten: list[str] = []

    def forget(self, _: Remote, commit: str) -> None:
        self.forgotten.append(commit)

    async def resolve(self, *_: Any, max_age_seconds: float) -> ResolvedRef:
        self.patience.append(max_age_seconds)
        if self.errors:
            raise self.errors.pop(0)
        return FOUND


class _World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.resolver = _Resolver()
        self.queued: list[Key] = []
        self.results: list[str] = []
        self.poller = RefPoller(
            self.resolver,  # type: ignore[arg-type]
            PendingCalls(self.queued.append),
            self.clock,
            on_result=lambda result, _: self.results.append(result),
            rng=random.Random(1),
        )

    async def ask(
        self,
        *,
        ref: str = "main",
        request: str = "",
        interval: float | None = 60.0,
        **more: Any,
    ) -> PollResult:
        question = PollQuery(REMOTE, "f", ref, request, **more)
        return await self.poller.poll(KEY, question, ANONYMOUS, interval_seconds=interval)


async def test_in_between_nobody_is_asked() -> None:
    """Passes within the interval cost nothing; after it the remote is asked once."""
    world = _World()
    first = await world.ask()
    due = world.poller.seconds_until_due(first)
    assert due is not None
    assert 54 <= due <= 66
    for _ in range(10):
        assert await world.ask() is first
    assert world.resolver.patience == [10.0]
    world.clock.seconds += 67
    await world.ask()
    assert world.resolver.patience == [10.0, 54.0]


async def test_without_polling_only_news_is_asked_for() -> None:
    """Time passes; a request or another ref asks at once, for an answer of now."""
    world = _World()
    first = await world.ask(interval=None)
    assert world.poller.seconds_until_due(first) is None
    world.clock.seconds += 1_000_000
    assert await world.ask(interval=None) is first
    await world.ask(interval=None, request="now")
    await world.ask(interval=None, request="now", ref="other")
    assert world.resolver.patience == [10.0, 0.0, 0.0]


async def test_another_spec_asks_anew() -> None:
    """Whatever changed in it, and also without polling; what was wrong is tried at once."""
    world = _World()
    world.resolver.errors = [Stalled("AuthFailed", "no")]
    await world.ask(interval=None, generation=1)
    answer = await world.ask(interval=None, generation=2)
    assert answer.resolution is FOUND
    assert await world.ask(interval=None, generation=2) is answer
    assert world.resolver.patience == [10.0, 0.0]


async def test_a_commit_that_an_agent_cannot_get_is_proven_anew() -> None:
    """SRC-4: once for each commit, however often it is said."""
    world = _World()
    lost = "a" * 40
    await world.ask(interval=None)
    assert not world.poller.is_reported_missing(KEY, lost)
    for _ in range(3):
        await world.ask(interval=None, missing_commit=lost)
    assert world.poller.is_reported_missing(KEY, lost)
    assert not world.poller.is_reported_missing(KEY, "b" * 40)
    assert world.resolver.forgotten == [lost]
    assert world.resolver.patience == [10.0, 0.0]


async def test_what_only_a_person_can_fix_waits_five_minutes() -> None:
    """The error is told again from memory."""
    world = _World()
    world.resolver.errors = [Stalled("AuthFailed", "no")]
    first = await world.ask()
    assert first.error is not None
    assert world.poller.seconds_until_due(first) == 300.0
    world.clock.seconds += 299
    assert await world.ask() is first
    world.clock.seconds += 2
    assert (await world.ask()).resolution == FOUND
    assert world.results == ["AuthFailed", "ok"]


async def test_passing_faults_back_off_and_a_new_question_resets() -> None:
    """Five seconds, doubling up to five minutes, each with jitter."""
    world = _World()
    world.resolver.errors = [Retryable("Timeout", "slow")] * 20
    waits = []
    for _ in range(10):
        wait = world.poller.seconds_until_due(await world.ask())
        assert wait is not None
        waits.append(wait)
        world.clock.seconds += wait + 0.1
    assert 4 <= waits[0] <= 6
    assert 240 <= waits[-1] <= 360
    wait = world.poller.seconds_until_due(await world.ask(ref="other"))
    assert wait is not None
    assert wait <= 6


async def test_a_ref_newer_than_a_shared_answer_is_looked_for_again() -> None:
    """Before it counts as missing, the remote itself is asked."""
    world = _World()
    world.resolver.errors = [Stalled("RefNotFound", "no")]
    assert (await world.ask()).resolution == FOUND
    assert world.resolver.patience == [10.0, 0.0]


async def test_who_is_forgotten_begins_anew() -> None:
    """A CR of the same name shares nothing with the one that is gone."""
    world = _World()
    await world.ask()
    world.poller.forget(KEY)
    await world.ask()
    assert len(world.resolver.patience) == 2


async def test_unexpected_errors_are_not_remembered() -> None:
    """A bug is the worker's to judge."""
    world = _World()
    world.resolver.errors = [RuntimeError("x")]  # type: ignore[list-item]
    with pytest.raises(RuntimeError):
        await world.ask()
    assert (await world.ask()).resolution == FOUND
