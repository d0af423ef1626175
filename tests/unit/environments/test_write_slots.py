"""Order of write slots, when many Environments want to write."""

from __future__ import annotations

import asyncio

import pytest

from windlass.environments.write_slots import SlotPriority, WriteSlots

pytestmark = pytest.mark.looptime


async def _work(
    turns: WriteSlots, rank: SlotPriority, name: str, seen: list[str], seconds: float = 1.0
) -> None:
    async with turns.acquire(rank):
        seen.append(name)
        await asyncio.sleep(seconds)


async def test_the_further_along_go_first() -> None:
    """Of equals the first one asked."""
    turns, seen = WriteSlots(1), []
    async with asyncio.TaskGroup() as group:
        for rank, name in (
            (SlotPriority.BEGINNING, "first"),
            (SlotPriority.BEGINNING, "beginner"),
            (SlotPriority.BEGINNING, "latecomer"),
            (SlotPriority.APPLYING, "applier"),
            (SlotPriority.SERVING, "server"),
        ):
            group.create_task(_work(turns, rank, name, seen))
            await asyncio.sleep(0)
    assert seen == ["first", "server", "applier", "beginner", "latecomer"]
    assert asyncio.get_running_loop().time() == 5.0


async def test_a_write_slot_ends_by_itself() -> None:
    """A writer that hangs delays others no longer than that, and returns nothing twice."""
    turns, seen = WriteSlots(1), []
    async with asyncio.TaskGroup() as group:
        group.create_task(_work(turns, SlotPriority.SERVING, "slow", seen, seconds=100.0))
        await asyncio.sleep(0)
        await _work(turns, SlotPriority.BEGINNING, "other", seen)
        assert asyncio.get_running_loop().time() == 3.0
    for _ in range(2):
        group_seen: list[str] = []
        async with asyncio.TaskGroup() as group:
            group.create_task(_work(turns, SlotPriority.SERVING, "one", group_seen))
            await asyncio.sleep(0)
            group.create_task(_work(turns, SlotPriority.SERVING, "two", group_seen))
            await asyncio.sleep(0.5)
            assert group_seen == ["one"]


async def test_a_canceled_waiter_keeps_no_write_slot() -> None:
    """Before it gets one, and at the very moment in which it does."""
    turns, seen = WriteSlots(1), []
    async with turns.acquire(SlotPriority.SERVING):
        early = asyncio.create_task(_work(turns, SlotPriority.SERVING, "early", seen))
        late = asyncio.create_task(_work(turns, SlotPriority.SERVING, "late", seen))
        await asyncio.sleep(0)
        early.cancel()
        await asyncio.sleep(0)
    late.cancel()
    await asyncio.gather(early, late, return_exceptions=True)
    await _work(turns, SlotPriority.BEGINNING, "next", seen)
    assert seen == ["next"]
