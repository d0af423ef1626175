"""Children of git are bounded, and restarted after they lose their slot."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.processes.polling import eventually
from windlass.base.fair_slots import FairSlots, namespace_context
from windlass.git import process, runner
from windlass.git.errors import GitError
from windlass.git.format.remote import Remote
from windlass.git.runner import Git
from windlass.git.settings import GitSettings

REMOTE = Remote.parse("https://127.0.0.1/a")
SETTINGS = GitSettings(local_hosts=frozenset({"127.0.0.1"}))


class Children:
    """Children that end when they are released; counts the running ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = asyncio.Event()
        self.running = 0
        self.most = 0
        self.started = 0
        monkeypatch.setattr(runner.process, "run", self._run)

    async def _run(self, *_: object, **__: object) -> process.Ended:
        self.started += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        return process.Ended(0, b"", b"", overflowed=False)


async def _until(children: Children, running: int) -> None:
    async def are_running() -> bool:
        return children.running == running

    await eventually(are_running, f"{running} children run")


async def test_children_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more children run at the same time than allowed."""
    children = Children(monkeypatch)
    git = Git(slots=FairSlots(2, 1))
    calls = [
        asyncio.create_task(git.under(git.settings).run(["version"], deadline_seconds=5.0))
        for _ in range(6)
    ]
    await _until(children, 2)
    children.gate.set()
    await asyncio.gather(*calls)
    assert (children.most, children.started) == (2, 6)


@pytest.mark.parametrize("repeats", [True, False])
async def test_a_child_that_loses_its_slot_is_killed(
    monkeypatch: pytest.MonkeyPatch, *, repeats: bool
) -> None:
    """It is restarted after its caller cleaned up, or fails."""
    children, cleaned = Children(monkeypatch), []
    git = Git(SETTINGS, slots=FairSlots(2, 2, min_seconds=0.0))

    async def call(*, is_repeatable: bool = True) -> None:
        clean = (lambda: cleaned.append(1)) if is_repeatable else None
        await git.run(["fetch"], remote=REMOTE, deadline_seconds=60.0, before_repeat=clean)

    with namespace_context("a"):
        first = asyncio.create_task(call())
        await _until(children, 1)
        second = asyncio.create_task(call(is_repeatable=repeats))
        await _until(children, 2)
    with namespace_context("b"):
        other = asyncio.create_task(call())

    async def is_started() -> bool:
        return children.started >= 3

    await eventually(is_started, "the call of the other namespace runs")
    if not repeats:
        with pytest.raises(GitError, match="other namespaces waited"):
            await second
    children.gate.set()
    await asyncio.gather(first, other, second, return_exceptions=True)
    assert (children.started, len(cleaned)) == ((4, 1) if repeats else (3, 0))
