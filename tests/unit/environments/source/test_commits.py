"""Resolving the commits of an Environment, also while Git is unavailable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from windlass.base.errors import Retryable, Stalled, Waiting
from windlass.environments.source.commits import CommitResolver
from windlass.environments.spec import DesiredSource
from windlass.environments.status import SourceCommit
from windlass.objects.names import Key
from windlass.runtime.pending_calls import PendingCalls

_KEY = Key("team-a", "one")
_BRANCH = DesiredSource("app", "https://git.example/app", "", "main", "")
_PINNED = replace(_BRANCH, commit="abc1234")
_UNAVAILABLE = Retryable("Unavailable", "connection refused")


class _Git:
    """Returns its `answer`, and counts how often and how fresh it was requested."""

    def __init__(self) -> None:
        self.answer: str | Exception = "1" * 40
        self.ages: list[float] = []

    async def resolve(
        self, _: str, source: DesiredSource, *, max_age_seconds: float
    ) -> SourceCommit:
        self.ages.append(max_age_seconds)
        if isinstance(self.answer, Exception):
            raise self.answer
        return SourceCommit(source.name, "main", self.answer, "refs/heads/main")


class _Clock:
    """A clock that is moved by hand."""

    seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


class _World:
    def __init__(self) -> None:
        self.git: Any = _Git()
        self.clock: Any = _Clock()
        self.commits = CommitResolver(
            self.git, PendingCalls(lambda _: None), self.clock, poll_seconds=60.0
        )

    async def resolve(self, source: DesiredSource = _BRANCH, *, at_once: bool = False) -> Any:
        return await self.commits.resolve(_KEY, "team-a", (source,), at_once=at_once)


async def test_a_followed_branch_is_resolved_in_every_reconcile() -> None:
    """The shared listing decides whether the server is contacted; on request it always is."""
    world = _World()
    await world.resolve()
    world.git.answer = "2" * 40
    assert (await world.resolve(at_once=True)).sources[0].commit == "2" * 40
    assert world.git.ages == [60.0, 0.0]


async def test_a_certain_commit_is_not_questioned_while_it_runs() -> None:
    """Not when the branch is rewritten, not when the server is away, not on request."""
    world = _World()
    await world.resolve(_PINNED)
    world.git.answer = Stalled("CommitNotOnRef", "the branch was rewritten")
    for at_once in (False, True):
        assert (await world.resolve(_PINNED, at_once=at_once)).error is None
    assert len(world.git.ages) == 1
    world.commits.forget(_KEY)
    with pytest.raises(Stalled):
        await world.resolve(_PINNED)


async def test_another_desired_source_is_resolved_anew() -> None:
    """Also while the server is away: known commits belong to the old source alone."""
    world = _World()
    await world.resolve(_PINNED)
    world.git.answer = _UNAVAILABLE
    with pytest.raises(Retryable):
        await world.resolve(replace(_PINNED, commit="def5678"))
    with pytest.raises(Retryable):
        await world.commits.resolve(_KEY, "team-b", (_PINNED,), at_once=False)


async def test_known_commits_are_used_while_the_server_is_away() -> None:
    """It is contacted again after the interval, or on request, and then recovers."""
    world = _World()
    await world.resolve()
    world.git.answer = _UNAVAILABLE
    for _ in range(3):
        resolved = await world.resolve()
        assert (resolved.sources[0].commit, resolved.error) == ("1" * 40, _UNAVAILABLE)
    assert len(world.git.ages) == 2
    await world.resolve(at_once=True)
    assert len(world.git.ages) == 3
    world.clock.seconds += 61
    world.git.answer = "2" * 40
    resolved = await world.resolve()
    assert (resolved.sources[0].commit, resolved.error) == ("2" * 40, None)


@pytest.mark.parametrize(
    "error", [Stalled("AuthFailed", "no"), Waiting("SecretMissing", "no", after=5.0)]
)
async def test_a_failure_that_needs_a_user_is_reported_at_once(error: Exception) -> None:
    """Also of an Environment that runs."""
    world = _World()
    await world.resolve()
    world.git.answer = error
    with pytest.raises(type(error)):
        await world.resolve()


async def test_without_known_commits_the_error_is_raised() -> None:
    """The desired commit is unknown."""
    world = _World()
    world.git.answer = _UNAVAILABLE
    with pytest.raises(Retryable):
        await world.resolve()
