"""Work in threads, and cancelling who waits for it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from windlass.base import tasks


async def test_the_answer_of_a_thread_comes_back() -> None:
    """With its arguments."""
    assert await tasks.run_in_thread(divmod, 7, 2) == (3, 1)


async def test_a_cancelled_waiter_waits_for_the_end() -> None:
    """However often: what the thread makes is made by then, so it can be removed."""
    begun, may_end, made = threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        begun.set()
        may_end.wait(10)
        made.append("file")

    waiting = asyncio.create_task(tasks.run_in_thread(work))
    await asyncio.to_thread(begun.wait, 10)
    for _ in range(2):
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert made == ["file"]


def test_a_loop_that_ends_waits_too() -> None:
    """Also where nobody waits for the waiter, it removes what the thread made."""
    begun, may_end, made = threading.Event(), threading.Event(), list[str]()
    forgotten: list[asyncio.Task[None]] = []

    def work() -> None:
        begun.set()
        may_end.wait(10)
        made.append("file")

    async def waiter() -> None:
        try:
            await tasks.run_in_thread(work)
        finally:
            made.clear()

    async def main() -> None:
        forgotten.append(asyncio.create_task(waiter()))
        await asyncio.to_thread(begun.wait, 10)
        asyncio.get_running_loop().call_later(0.02, may_end.set)

    asyncio.run(main())
    assert made == []
