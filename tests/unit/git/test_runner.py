"""Children of git take turns."""

from __future__ import annotations

import asyncio

import pytest

from windlass.git import process, runner
from windlass.git.runner import ChildSlots, Git


class Crowd:
    """Askers that hold their place until they are let go."""

    def __init__(self, turns: ChildSlots) -> None:
        self._turns = turns
        self._leave = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.running: list[str] = []

    async def come(self, *hosts: str) -> None:
        self._tasks += [asyncio.create_task(self._work(host)) for host in hosts]
        await settled()

    async def leave(self) -> None:
        self._leave.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def give_up(self, number: int) -> None:
        self._tasks[number].cancel()

    async def _work(self, host: str) -> None:
        with await self._turns.acquire(host):
            self.running.append(host)
            await self._leave.wait()


async def settled() -> None:
    """Let everybody go as far as they can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_no_more_than_allowed_run_at_once() -> None:
    """Two of a host and eight in all, whoever asks; the others follow when these are done."""
    crowd = Crowd(ChildSlots(8, 2))
    await crowd.come(*"aaaa", *"bbb", *"ccc", *"ddd", *"eee")
    assert sorted(crowd.running) == list("aabbccdd")
    await crowd.leave()
    assert len(crowd.running) == 16


async def test_a_crowded_host_holds_nobody_else_up() -> None:
    """Who waits for a host takes no place from askers of another, or of none."""
    crowd = Crowd(ChildSlots(3, 1))
    await crowd.come("slow", "slow", "slow", "quick", "")
    assert sorted(crowd.running) == ["", "quick", "slow"]
    await crowd.leave()


@pytest.mark.parametrize("waiting", [1, 2])
async def test_who_gives_up_takes_no_place_along(waiting: int) -> None:
    """Cancelled in either line, with or without a place of the host."""
    turns = ChildSlots(1, 1)
    crowd = Crowd(turns)
    await crowd.come("a", "a", "b")
    crowd.give_up(waiting)
    await crowd.leave()
    after = Crowd(turns)
    await after.come("b")
    assert after.running == ["b"]
    await after.leave()


async def test_children_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked of git at the same time, no more children run than may."""
    running: list[int] = [0, 0]

    async def run(*_: object, **__: object) -> process.Ended:
        running[0] += 1
        running[1] = max(running)
        await settled()
        running[0] -= 1
        return process.Ended(0, b"", b"", overflowed=False)

    monkeypatch.setattr(runner.process, "run", run)
    git = Git(slots=ChildSlots(2, 1))
    asked = (git.under(git.settings).run(["version"], deadline_seconds=5.0) for _ in range(6))
    await asyncio.gather(*asked)
    assert running == [0, 2]
