"""Slots are shared fairly between namespaces and hosts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.base.fair_slots import MIN_SECONDS, FairSlots, SlotRevoked, namespace_context

pytestmark = pytest.mark.looptime


class Calls:
    """Calls that hold their slot until they are ended."""

    def __init__(self, slots: FairSlots) -> None:
        self._slots = slots
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.running: list[str] = []
        self.revoked: list[str] = []

    async def start(self, *names: str) -> None:
        """Start calls in the order of their names, each `namespace@host/number`."""
        for name in names:
            namespace, _, rest = name.partition("@")
            self._ends[name] = asyncio.Event()
            with namespace_context(namespace):
                task = asyncio.create_task(self._call(name, rest.partition("/")[0]))
            self._tasks.append(task)
            await _step()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
        await _step()

    async def cancel_all(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _call(self, name: str, host: str) -> None:
        try:
            async with self._slots.hold(host):
                with self._counted(name):
                    await self._ends[name].wait()
        except SlotRevoked:
            self.revoked.append(name)

    @contextlib.contextmanager
    def _counted(self, name: str) -> Iterator[None]:
        self.running.append(name)
        try:
            yield
        finally:
            self.running.remove(name)


async def _step() -> None:
    """Let every task go as far as it can without time passing."""
    for _ in range(10):
        await asyncio.sleep(0)


def _names(namespace: str, host: str, count: int) -> list[str]:
    return [f"{namespace}@{host}/{number}" for number in range(count)]


async def test_a_namespace_alone_may_use_every_slot() -> None:
    """Nothing is reserved for idle namespaces."""
    calls = Calls(FairSlots(8, 8))
    await calls.start(*_names("a", "h", 12))
    assert len(calls.running) == 8
    await asyncio.sleep(1000)
    assert calls.revoked == []
    await calls.cancel_all()


async def test_a_host_has_no_more_calls_than_allowed() -> None:
    """A host at its limit delays no call to another one, or to none."""
    calls = Calls(FairSlots(8, 2))
    await calls.start(*_names("a", "slow", 5), "a@quick/0", "a@/0")
    assert calls.running == ["a@slow/0", "a@slow/1", "a@quick/0", "a@/0"]
    await calls.end("a@slow/0")
    assert "a@slow/2" in calls.running
    await calls.cancel_all()


async def test_a_free_slot_goes_to_the_namespace_with_the_fewest_calls() -> None:
    """Not to the call that waits the longest; of equals that one."""
    calls = Calls(FairSlots(2, 2))
    await calls.start("a@h/0", "a@h/1", "a@h/2", "b@h/0", "c@h/0")
    await calls.end("a@h/0")
    assert calls.running == ["a@h/1", "b@h/0"]
    await calls.end("a@h/1")
    assert calls.running == ["b@h/0", "a@h/2"]
    await calls.cancel_all()


async def test_of_equal_namespaces_the_host_with_the_fewest_calls_is_next() -> None:
    """One slow host of a namespace does not hold up its other hosts."""
    calls = Calls(FairSlots(3, 3))
    await calls.start("a@x/0", "a@x/1", "a@x/2", "a@x/3", "a@y/0")
    await calls.end("a@x/0")
    assert calls.running == ["a@x/1", "a@x/2", "a@y/0"]
    await calls.cancel_all()


@pytest.mark.parametrize("per_host", [4, 99])
async def test_a_waiting_namespace_takes_a_slot_from_the_one_with_the_most(per_host: int) -> None:
    """From the newest call of those that ran long enough, one for each waiting call."""
    calls = Calls(FairSlots(4, per_host))
    await calls.start("a@h/0", "a@h/1")
    await asyncio.sleep(1)
    await calls.start("a@h/2", "a@h/3")
    await asyncio.sleep(MIN_SECONDS - 1)
    await calls.start("b@h/0")
    assert calls.revoked == ["a@h/1"], "0 and 1 ran long enough"
    assert calls.running == ["a@h/0", "a@h/2", "a@h/3", "b@h/0"]
    await asyncio.sleep(MIN_SECONDS)
    await calls.start("b@h/1")
    assert calls.revoked == ["a@h/1", "a@h/3"]
    await calls.start("b@h/2")
    await asyncio.sleep(1000)
    assert len(calls.revoked) == 2, "two and two are even"
    await calls.cancel_all()


async def test_a_call_keeps_its_slot_for_a_minimum_time() -> None:
    """A call that waits for a slot of new calls gets one as soon as that time is over."""
    calls = Calls(FairSlots(2, 2))
    await calls.start("a@h/0", "a@h/1", "b@h/0")
    await asyncio.sleep(MIN_SECONDS - 0.1)
    assert calls.revoked == []
    await asyncio.sleep(0.2)
    assert calls.running == ["a@h/0", "b@h/0"]
    await calls.cancel_all()


async def test_local_calls_keep_their_slots() -> None:
    """Work on local stores ends by itself, and a restart would only cost more."""
    calls = Calls(FairSlots(2, 2))
    await calls.start("a@/0", "a@/1", "b@h/0")
    await asyncio.sleep(1000)
    assert calls.revoked == []
    await calls.cancel_all()


async def test_canceled_calls_release_their_slots() -> None:
    """While waiting, with a slot, and between the two."""
    slots = FairSlots(1, 1)
    calls = Calls(slots)
    await calls.start("a@h/0", "a@h/1", "b@h/0")
    calls._tasks[1].cancel()
    calls._tasks[2].cancel()
    await calls.end("a@h/0")
    assert calls.running == []
    await calls.start("b@h/1")
    assert calls.running == ["b@h/1"]
    await calls.cancel_all()
    assert not slots._running
    assert not slots._waiting


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y", ""])), max_size=40))
def test_the_bounds_hold_and_every_call_gets_a_slot(requests: list[tuple[str, str]]) -> None:
    """For calls in any order that end by themselves."""

    async def run() -> None:
        slots, now, most, done = FairSlots(4, 2, min_seconds=0.0), {"x": 0, "y": 0, "": 0}, 0, 0

        async def call(host: str) -> None:
            nonlocal most, done
            while True:
                with contextlib.suppress(SlotRevoked):
                    async with slots.hold(host):
                        now[host] += 1
                        try:
                            assert sum(now.values()) <= 4
                            assert max(now["x"], now["y"]) <= 2
                            await asyncio.sleep(0)
                        finally:
                            now[host] -= 1
                    done += 1
                    return

        async with asyncio.TaskGroup() as group:
            for namespace, host in requests:
                with namespace_context(namespace):
                    group.create_task(call(host))
        assert done == len(requests)
        assert not slots._running
        assert not slots._waiting

    asyncio.run(run())
