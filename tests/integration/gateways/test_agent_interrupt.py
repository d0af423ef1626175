"""Ending a sync before its commit point."""

from __future__ import annotations

import asyncio

import pytest

from windlass.gateways.agent.content_builder import ContentPipe, PipeBroken
from windlass.gateways.agent.interrupt import Interrupt, SyncInterrupted


async def test_what_is_under_way_is_cancelled() -> None:
    """And has cleaned up before anybody goes on."""
    interrupt, cleaned = Interrupt(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    running = asyncio.create_task(interrupt.run(work()))
    await asyncio.sleep(0)
    interrupt.set()
    with pytest.raises(SyncInterrupted):
        await running
    assert cleaned.is_set()


async def test_what_is_done_is_handed_on() -> None:
    """Results and errors pass."""
    interrupt = Interrupt()
    assert await interrupt.run(asyncio.sleep(0, "x")) == "x"

    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await interrupt.run(fail())
    interrupt.check()


async def test_whoever_can_end_it_is_told() -> None:
    """Only while it runs."""
    interrupt, told = Interrupt(), []
    with interrupt.on_interrupt(lambda: told.append(1)):
        interrupt.set()
    interrupt.set()
    assert told == [1]
    with pytest.raises(SyncInterrupted):
        await interrupt.sleep(60.0)


async def test_pieces_pass_in_order() -> None:
    """Also when there are more than fit at a time."""
    pipe = ContentPipe()
    reading = asyncio.create_task(asyncio.to_thread(lambda: b"".join(pipe.pieces())))

    def write() -> None:
        for number in range(50):
            pipe.put(bytes([number]))
        pipe.end()

    await asyncio.to_thread(write)
    assert await reading == bytes(range(50))


async def test_a_side_that_gives_up_ends_the_other() -> None:
    """Nobody waits for ever."""
    pipe = ContentPipe()
    reading = asyncio.create_task(asyncio.to_thread(lambda: list(pipe.pieces())))
    await asyncio.to_thread(pipe.abort)
    with pytest.raises(PipeBroken):
        await reading
    with pytest.raises(PipeBroken):
        pipe.put(b"x")
