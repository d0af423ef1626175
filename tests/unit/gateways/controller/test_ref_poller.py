"""When the remote is polled."""

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
RESOLVED = ResolvedRef("a" * 40, "refs/heads/main", "branch")


class _Resolver:
    """Records how old a result was allowed to be; fails with the errors it was given."""

    def __init__(self) -> None:
        self.max_ages: list[float] = []
        self.errors: list[WindlassError] = []
        self.forgotten: list[str] = []

    def forget(self, _: Remote, commit: str) -> None:
        self.forgotten.append(commit)

    async def resolve(self, *_: Any, max_age_seconds: float) -> ResolvedRef:
        self.max_ages.append(max_age_seconds)
        if self.errors:
            raise self.errors.pop(0)
        return RESOLVED


class _PollerHarness:
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
        query = PollQuery(REMOTE, "f", ref, request, **more)
        return await self.poller.poll(KEY, query, ANONYMOUS, interval_seconds=interval)


async def test_the_remote_is_polled_once_per_interval() -> None:
    """Reconciles within the interval send no request; after it there is one."""
    harness = _PollerHarness()
    first = await harness.ask()
    due = harness.poller.seconds_until_due(first)
    assert due is not None
    assert 54 <= due <= 66
    for _ in range(10):
        assert await harness.ask() is first
    assert harness.resolver.max_ages == [10.0]
    harness.clock.seconds += 67
    await harness.ask()
    assert harness.resolver.max_ages == [10.0, 54.0]


async def test_without_polling_only_a_request_or_another_ref_asks() -> None:
    """Both ask at once, for a current result; time alone asks for none."""
    harness = _PollerHarness()
    first = await harness.ask(interval=None)
    assert harness.poller.seconds_until_due(first) is None
    harness.clock.seconds += 1_000_000
    assert await harness.ask(interval=None) is first
    await harness.ask(interval=None, request="now")
    await harness.ask(interval=None, request="now", ref="other")
    assert harness.resolver.max_ages == [10.0, 0.0, 0.0]


async def test_a_changed_spec_asks_again() -> None:
    """Whatever changed in it, and also without polling; a failure is retried at once."""
    harness = _PollerHarness()
    harness.resolver.errors = [Stalled("AuthFailed", "no")]
    await harness.ask(interval=None, generation=1)
    result = await harness.ask(interval=None, generation=2)
    assert result.resolution is RESOLVED
    assert await harness.ask(interval=None, generation=2) is result
    assert harness.resolver.max_ages == [10.0, 0.0]


async def test_a_commit_that_an_agent_cannot_fetch_is_resolved_again() -> None:
    """SRC-4: once for each commit, however often it is reported."""
    harness = _PollerHarness()
    missing = "a" * 40
    await harness.ask(interval=None)
    assert not harness.poller.is_reported_missing(KEY, missing)
    for _ in range(3):
        await harness.ask(interval=None, missing_commit=missing)
    assert harness.poller.is_reported_missing(KEY, missing)
    assert not harness.poller.is_reported_missing(KEY, "b" * 40)
    assert harness.resolver.forgotten == [missing]
    assert harness.resolver.max_ages == [10.0, 0.0]


async def test_a_stalled_remote_is_retried_after_five_minutes() -> None:
    """Until then the cached error is returned."""
    harness = _PollerHarness()
    harness.resolver.errors = [Stalled("AuthFailed", "no")]
    first = await harness.ask()
    assert first.error is not None
    assert harness.poller.seconds_until_due(first) == 300.0
    harness.clock.seconds += 299
    assert await harness.ask() is first
    harness.clock.seconds += 2
    assert (await harness.ask()).resolution == RESOLVED
    assert harness.results == ["AuthFailed", "ok"]


async def test_transient_faults_back_off_and_a_new_query_resets() -> None:
    """Five seconds, doubling up to five minutes, each with jitter."""
    harness = _PollerHarness()
    harness.resolver.errors = [Retryable("Timeout", "slow")] * 20
    waits = []
    for _ in range(10):
        wait = harness.poller.seconds_until_due(await harness.ask())
        assert wait is not None
        waits.append(wait)
        harness.clock.seconds += wait + 0.1
    assert 4 <= waits[0] <= 6
    assert 240 <= waits[-1] <= 360
    wait = harness.poller.seconds_until_due(await harness.ask(ref="other"))
    assert wait is not None
    assert wait <= 6


async def test_a_ref_missing_in_a_shared_result_is_resolved_again() -> None:
    """Before it counts as missing, the remote itself is asked."""
    harness = _PollerHarness()
    harness.resolver.errors = [Stalled("RefNotFound", "no")]
    assert (await harness.ask()).resolution == RESOLVED
    assert harness.resolver.max_ages == [10.0, 0.0]


async def test_a_forgotten_sync_begins_without_state() -> None:
    """A CR of the same name shares nothing with the deleted one."""
    harness = _PollerHarness()
    await harness.ask()
    harness.poller.forget(KEY)
    await harness.ask()
    assert len(harness.resolver.max_ages) == 2


async def test_unexpected_errors_are_not_cached() -> None:
    """A bug is left to the controller's error handling."""
    harness = _PollerHarness()
    harness.resolver.errors = [RuntimeError("x")]  # type: ignore[list-item]
    with pytest.raises(RuntimeError):
        await harness.ask()
    assert (await harness.ask()).resolution == RESOLVED
