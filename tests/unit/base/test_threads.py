"""Work in threads, and cancelling who waits for it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from windlass.base import threads


async def test_the_answer_of_a_thread_comes_back() -> None:
    """With its arguments."""
    assert await threads.to_its_end(divmod, 7, 2) == (3, 1)


async def test_a_cancelled_waiter_waits_for_the_end() -> None:
    """What the thread makes is made when the cancellation arrives, so it can be removed."""
    begun, may_end, made = threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        begun.set()
        may_end.wait(10)
        made.append("file")

    waiting = asyncio.create_task(threads.to_its_end(work))
    await asyncio.to_thread(begun.wait, 10)
    waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert made == ["file"]
