"""Which commits an Environment is made of, and what holds while git is away."""

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
_AWAY = Retryable("Unavailable", "nobody answers")


class _Git:
    """Answers with its `answer`, and counts how often and how fresh it had to be."""

    def __init__(self) -> None:
        self.answer: str | Exception = "1" * 40
        self.ages: list[float] = []

    async def resolve(self, _: str, wish: DesiredSource, *, max_age_seconds: float) -> SourceCommit:
        self.ages.append(max_age_seconds)
        if isinstance(self.answer, Exception):
            raise self.answer
        return SourceCommit(wish.name, "main", self.answer, "refs/heads/main")


class _Clock:
    """A clock that stands until it is moved."""

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

    async def settled(self, wish: DesiredSource = _BRANCH, *, at_once: bool = False) -> Any:
        return await self.commits.resolve(_KEY, "team-a", (wish,), at_once=at_once)


async def test_what_is_followed_is_asked_for_in_every_pass() -> None:
    """The listing that all share decides whether the server is; on request it always is."""
    world = _World()
    await world.settled()
    world.git.answer = "2" * 40
    assert (await world.settled(at_once=True)).sources[0].commit == "2" * 40
    assert world.git.ages == [60.0, 0.0]


async def test_a_certain_commit_is_not_questioned_while_it_runs() -> None:
    """Not when the branch is rewritten, not when the server is away, not on request."""
    world = _World()
    await world.settled(_PINNED)
    world.git.answer = Stalled("CommitNotOnRef", "the branch was rewritten")
    for at_once in (False, True):
        assert (await world.settled(_PINNED, at_once=at_once)).error is None
    assert len(world.git.ages) == 1
    world.commits.forget(_KEY)
    with pytest.raises(Stalled):
        await world.settled(_PINNED)


async def test_another_wish_is_another_question() -> None:
    """Also where the server is away: what is known answers the old wish alone."""
    world = _World()
    await world.settled(_PINNED)
    world.git.answer = _AWAY
    with pytest.raises(Retryable):
        await world.settled(replace(_PINNED, commit="def5678"))
    with pytest.raises(Retryable):
        await world.commits.resolve(_KEY, "team-b", (_PINNED,), at_once=False)


async def test_what_is_known_holds_while_the_server_is_away() -> None:
    """It is asked again after the interval, or on request, and heals by itself."""
    world = _World()
    await world.settled()
    world.git.answer = _AWAY
    for _ in range(3):
        found = await world.settled()
        assert (found.sources[0].commit, found.error) == ("1" * 40, _AWAY)
    assert len(world.git.ages) == 2
    await world.settled(at_once=True)
    assert len(world.git.ages) == 3
    world.clock.seconds += 61
    world.git.answer = "2" * 40
    found = await world.settled()
    assert (found.sources[0].commit, found.error) == ("2" * 40, None)


@pytest.mark.parametrize(
    "error", [Stalled("AuthFailed", "no"), Waiting("SecretMissing", "no", after=5.0)]
)
async def test_what_a_person_has_to_mend_is_told_at_once(error: Exception) -> None:
    """Also of an Environment that runs."""
    world = _World()
    await world.settled()
    world.git.answer = error
    with pytest.raises(type(error)):
        await world.settled()


async def test_without_anything_known_the_trouble_is_the_answer() -> None:
    """Nobody can tell what is wished."""
    world = _World()
    world.git.answer = _AWAY
    with pytest.raises(Retryable):
        await world.settled()
