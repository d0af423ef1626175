"""The body cap, the deadline, the shared budget; without a server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass.web.body_limit import BodyLimit


class Sender:
    """Sends chunks, then waits forever or ends."""

    def __init__(self, *chunks: bytes, ends: bool = True, declares: int | None = None) -> None:
        self.chunks = list(chunks)
        self.ends = ends
        self.status = 0
        self.seen: list[bytes] = []
        headers = [] if declares is None else [(b"content-length", b"%d" % declares)]
        self.scope = {"type": "http", "headers": headers}

    async def receive(self) -> dict[str, Any]:
        if not self.chunks and not self.ends:
            await asyncio.Event().wait()
        if not self.chunks:
            return {"type": "http.disconnect"}
        chunk = self.chunks.pop(0)
        more = bool(self.chunks) or not self.ends
        return {"type": "http.request", "body": chunk, "more_body": more}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        assert not message["more_body"]
        self.seen.append(message["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def take(sender: Sender, *, cap: int = 10, budget: int = 100) -> BodyLimit:
    """Send one request through a body limit."""
    intake = BodyLimit(sender.app, cap_bytes=cap, seconds=10, budget_bytes=budget)
    await intake(sender.scope, sender.receive, sender.send)
    return intake


async def test_chunks_arrive_as_one_body() -> None:
    """An application gets the whole body at once."""
    sender = Sender(b"01234", b"56789")
    await take(sender)
    assert (sender.status, sender.seen) == (200, [b"0123456789"])


@pytest.mark.parametrize("declares", [None, 11])
async def test_too_large_body_never_reaches_the_application(declares: int | None) -> None:
    """A body over the cap gets 413, whether it declares its length or not."""
    sender = Sender(b"01234", b"567890", b"more", declares=declares)
    await take(sender)
    assert (sender.status, sender.seen) == (413, [])


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_slow_body_is_refused() -> None:
    """A body that stops arriving gets 408 after the deadline."""
    sender = Sender(b"0", ends=False)
    await take(sender)
    assert (sender.status, sender.seen) == (408, [])
    assert asyncio.get_running_loop().time() == pytest.approx(10, abs=0.1)


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_an_endless_sender_is_disconnected() -> None:
    """A refused sender that never stops is read for a bounded time."""
    sender = Sender(b"0123456789x", ends=False)
    await take(sender)
    assert sender.status == 413
    assert asyncio.get_running_loop().time() == pytest.approx(2, abs=0.1)


async def test_a_disconnected_sender_runs_no_application() -> None:
    """The connection was lost within the body."""
    sender = Sender()
    await take(sender)
    assert (sender.status, sender.seen) == (0, [])


async def test_the_budget_is_shared_and_released() -> None:
    """Bodies together stay within the budget, and a finished request frees its part."""
    sender = Sender(b"01234")
    intake = await take(sender, budget=5)
    again = Sender(b"012345")
    await intake(again.scope, again.receive, again.send)
    assert again.status == 503
    third = Sender(b"01234")
    await intake(third.scope, third.receive, third.send)
    assert third.status == 200
