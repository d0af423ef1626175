"""Interrupting a sync before its commit point."""

from __future__ import annotations

import asyncio

import pytest

from windlass.gateways.agent.content_builder import ContentPipe, PipeBroken
from windlass.gateways.agent.interrupt import Interrupt, SyncInterrupted


async def test_an_interrupted_task_is_canceled() -> None:
    """Its cleanup has finished before the caller continues."""
    interrupt, cleaned_up = Interrupt(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned_up.set()

    running = asyncio.create_task(interrupt.run(work()))
    await asyncio.sleep(0)
    interrupt.set()
    with pytest.raises(SyncInterrupted):
        await running
    assert cleaned_up.is_set()


async def test_results_and_errors_are_passed_on() -> None:
    """If there was no interrupt."""
    interrupt = Interrupt()
    assert await interrupt.run(asyncio.sleep(0, "x")) == "x"

    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await interrupt.run(fail())
    interrupt.check()


async def test_an_interrupt_calls_its_callback() -> None:
    """Only inside the block."""
    interrupt, calls = Interrupt(), []
    with interrupt.on_interrupt(lambda: calls.append(1)):
        interrupt.set()
    interrupt.set()
    assert calls == [1]
    with pytest.raises(SyncInterrupted):
        await interrupt.sleep(60.0)


async def test_chunks_are_piped_in_order() -> None:
    """Also if there are more than the pipe holds."""
    pipe = ContentPipe()
    reading = asyncio.create_task(asyncio.to_thread(lambda: b"".join(pipe.pieces())))

    def write() -> None:
        for number in range(50):
            pipe.put(bytes([number]))
        pipe.end()

    await asyncio.to_thread(write)
    assert await reading == bytes(range(50))


async def test_aborting_a_pipe_ends_both_sides() -> None:
    """Neither waits forever."""
    pipe = ContentPipe()
    reading = asyncio.create_task(asyncio.to_thread(lambda: list(pipe.pieces())))
    await asyncio.to_thread(pipe.abort)
    with pytest.raises(PipeBroken):
        await reading
    with pytest.raises(PipeBroken):
        pipe.put(b"x")
