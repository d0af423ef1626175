"""Work in threads, and canceling the task that waits for it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from windlass.base import tasks


async def test_the_result_of_a_thread_is_returned() -> None:
    """With its arguments."""
    assert await tasks.run_in_thread(divmod, 7, 2) == (3, 1)


async def test_a_canceled_waiter_waits_for_the_thread() -> None:
    """However often it is canceled: what the thread creates exists by then and can be removed."""
    begun, may_end, created = threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        begun.set()
        may_end.wait(10)
        created.append("file")

    waiting = asyncio.create_task(tasks.run_in_thread(work))
    await asyncio.to_thread(begun.wait, 10)
    for _ in range(2):
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert created == ["file"]


def test_a_closing_loop_waits_for_the_thread() -> None:
    """A waiter that is not awaited itself still removes what the thread created."""
    begun, may_end, created = threading.Event(), threading.Event(), list[str]()
    forgotten: list[asyncio.Task[None]] = []

    def work() -> None:
        begun.set()
        may_end.wait(10)
        created.append("file")

    async def waiter() -> None:
        try:
            await tasks.run_in_thread(work)
        finally:
            created.clear()

    async def main() -> None:
        forgotten.append(asyncio.create_task(waiter()))
        await asyncio.to_thread(begun.wait, 10)
        asyncio.get_running_loop().call_later(0.02, may_end.set)

    asyncio.run(main())
    assert created == []
