"""Waiting, timers and backoff of the work queue, on virtual time."""

from __future__ import annotations

import asyncio
import random

import pytest

from windlass.runtime.queue import KeyedQueue

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


def now() -> float:
    """The virtual time."""
    return asyncio.get_running_loop().time()


async def test_get_waits_for_the_first_key() -> None:
    """A worker that calls first gets the key when it is added."""
    queue: KeyedQueue[str] = KeyedQueue()
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(3)
    queue.add("a")
    assert await worker == "a"
    assert now() == pytest.approx(3)


async def test_add_after_waits_exactly() -> None:
    """A delayed key is returned when it is due, and the earliest delay wins."""
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add_after("a", 50)
    queue.add_after("a", 20)
    queue.add_after("a", 30)
    assert queue.delayed == 1
    assert await queue.get() == "a"
    assert now() == pytest.approx(20)


async def test_several_delays_come_in_their_order() -> None:
    """The timer is re-armed for the next due key."""
    queue: KeyedQueue[str] = KeyedQueue()
    for key, seconds in (("c", 3), ("a", 1), ("b", 2)):
        queue.add_after(key, seconds)
    seen = [(await queue.get(), round(now())) for _ in range(3)]
    assert seen == [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize("seconds", [0, -1])
async def test_a_delay_of_zero_is_now(seconds: float) -> None:
    """A due time in the past means now."""
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add_after("a", seconds)
    assert queue.depth == 1


async def test_due_keys_count_as_depth_while_workers_are_busy() -> None:
    """Also when no worker calls get."""
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add_after("a", 5)
    await asyncio.sleep(9)
    assert queue.depth == 1


async def test_backoff_doubles_up_to_five_minutes_and_is_reset() -> None:
    """Each failure waits longer within its jitter; success resets it."""
    queue: KeyedQueue[str] = KeyedQueue(rng=random.Random(1))
    step = 0.5
    for _ in range(15):
        assert step / 2 <= queue.retry("a") <= step
        step = min(300.0, step * 2)
    assert step == 300
    assert queue.failing == 1
    queue.forget("a")
    assert queue.failing == 0
    assert queue.retry("a") <= 0.5


async def test_backoff_is_per_key() -> None:
    """One failing key does not slow another."""
    queue: KeyedQueue[str] = KeyedQueue()
    for _ in range(10):
        queue.retry("bad")
    assert queue.retry("good") <= 0.5


async def test_every_waiting_worker_gets_a_key() -> None:
    """Keys added together are spread over the waiting workers."""
    queue: KeyedQueue[int] = KeyedQueue()
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(1)
    for key in range(3):
        queue.add(key)
    assert sorted(await asyncio.gather(*workers)) == [0, 1, 2]
    assert queue.working == 3


async def test_a_canceled_worker_loses_no_key() -> None:
    """A worker that is canceled just as a key arrives leaves it in the queue."""
    queue: KeyedQueue[str] = KeyedQueue()
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    queue.add("a")
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
    assert await queue.get() == "a"
