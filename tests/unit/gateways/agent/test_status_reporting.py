"""When an agent writes its report, and which state it writes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx2
import orjson
import pytest

from windlass.gateways.agent.status import StatusWriter
from windlass.gateways.wire.metadata import StatusObject
from windlass.kube.connection import Connection

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

STATUS_OBJECT = StatusObject("status-1", "uid-1")


class Server:
    """Accepts every write, and records its time and content."""

    impersonates = False

    def __init__(self) -> None:
        self.writes: list[tuple[float, str]] = []

    def may_write(self) -> bool:
        return True

    async def request(self, *_: Any, content: bytes, **__: Any) -> httpx2.Response:
        report = orjson.loads(content)["data"]["site-0"]
        self.writes.append((round(asyncio.get_running_loop().time(), 3), report))
        return httpx2.Response(200, content=content)


@contextlib.asynccontextmanager
async def reporting() -> AsyncIterator[tuple[StatusWriter, Server]]:
    """A running status writer and the server it writes to."""
    reporter, server = StatusWriter("plant", "site-0", "uid"), Server()
    reporter.set_target(STATUS_OBJECT)
    task = asyncio.create_task(reporter.run(cast("Connection", server)))
    try:
        yield reporter, server
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_short_sync_is_one_immediate_write() -> None:
    """Progress of less than a second is not written; the result is written without delay."""
    async with reporting() as (reporter, server):
        began = asyncio.get_running_loop().time()
        reporter.publish("planning", is_progress=True)
        await asyncio.sleep(0.3)
        reporter.publish("scanning", is_progress=True)
        await asyncio.sleep(0.5)
        reporter.publish("synced")
        await asyncio.sleep(0.1)
    assert server.writes == [(round(began + 0.8, 3), "synced")]


async def test_a_long_sync_reports_its_progress() -> None:
    """Progress is written after a second; publishing the same state again does not delay it."""
    async with reporting() as (reporter, server):
        began = asyncio.get_running_loop().time()
        reporter.publish("planning", is_progress=True)
        await asyncio.sleep(0.6)
        reporter.publish("planning", is_progress=True)
        await asyncio.sleep(1.0)
        reporter.publish("synced")
        await asyncio.sleep(0.1)
    assert server.writes == [(round(began + 1.0, 3), "planning"), (round(began + 1.6, 3), "synced")]


async def test_after_two_writes_only_the_newest_state_is_written() -> None:
    """A burst of two is immediate; later states wait two seconds, and only the last is written."""
    async with reporting() as (reporter, server):
        began = asyncio.get_running_loop().time()
        for number in range(5):
            reporter.publish(f"state {number}")
            await asyncio.sleep(0.1)
        await asyncio.sleep(5.0)
    assert server.writes == [
        (round(began, 3), "state 0"),
        (round(began + 0.1, 3), "state 1"),
        (round(began + 2.0, 3), "state 4"),
    ]
