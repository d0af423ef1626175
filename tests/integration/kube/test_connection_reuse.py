"""Connections that are reused for requests, against a scripted server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest

from tests.support.processes.polling import eventually
from windlass.kube.http import transports
from windlass.kube.http.transports import PooledTransport

Answer = Callable[[bytes, asyncio.StreamWriter], bool]
"""Answers one request; False ends the connection."""

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Counts connections; `answer` decides the response."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.bodies: list[bytes] = []
        self.opened = 0
        self.open: set[asyncio.StreamWriter] = set()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        self.open.add(writer)
        try:
            while await self._one(reader, writer):
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open.discard(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        self.bodies.append(await reader.readexactly(int(length or 0)))
        return self.answer(head, writer)


def whole(head: bytes, writer: asyncio.StreamWriter) -> bool:
    """A complete response."""
    writer.write(WHOLE)
    return True


@asynccontextmanager
async def serving(answer: Answer = whole) -> AsyncIterator[tuple[Server, httpx2.AsyncClient]]:
    """A server, and a client with our transport."""
    responses = Server(answer)
    async with await asyncio.start_server(responses.serve, "127.0.0.1", 0) as listening:
        responses.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
        transport = PooledTransport(httpx2.create_ssl_context())
        async with httpx2.AsyncClient(transport=transport) as client:
            yield responses, client


async def test_a_connection_serves_one_request_after_the_other() -> None:
    """Complete responses leave the connection open for the next, with or without a body."""
    async with serving() as (server, client):
        for body in (b"", b"one", b"two"):
            answer = await client.request("POST", server.url, content=body)
            assert (answer.status_code, answer.content) == (200, b"ok")
    assert server.opened == 1
    assert server.bodies == [b"", b"one", b"two"]


async def test_requests_at_once_have_connections_of_their_own() -> None:
    """No request waits for another; afterwards a bounded number of connections stays."""
    async with serving() as (server, client):
        gathered = asyncio.gather(
            *(client.get(server.url) for _ in range(transports.MOST_IDLE + 4))
        )
        assert {answer.content for answer in await gathered} == {b"ok"}

        async def bounded() -> bool:
            return len(server.open) <= transports.MOST_IDLE

        await eventually(bounded, "surplus connections closed")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        WHOLE + WHOLE,
        WHOLE + b"x",
    ],
    ids=["close", "1.0", "two answers", "a byte more"],
)
async def test_an_unusable_connection_is_not_reused(answer: bytes) -> None:
    """The server closes it, or sends more than was requested."""

    def respond(head: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(answer)
        return True

    async with serving(respond) as (server, client):
        for _ in range(2):
            assert (await client.get(server.url)).content == b"ok"
        assert server.opened == 2


async def test_a_connection_that_ended_meanwhile_is_not_used() -> None:
    """An end that the loop has not reported yet is detected before anything is sent."""
    async with serving() as (server, client):
        await client.get(server.url)
        for writer in server.open:
            writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        assert (await client.get(server.url)).content == b"ok"
        assert server.opened == 2


async def test_a_truncated_response_is_a_fault_and_the_next_request_succeeds() -> None:
    """Nothing is sent twice automatically, and no state of the fault remains."""
    cut = [True]

    def respond(head: bytes, writer: asyncio.StreamWriter) -> bool:
        if not cut.pop():
            return whole(head, writer)
        cut.append(False)
        writer.write(WHOLE[:-1])
        return False

    async with serving(respond) as (server, client):
        with pytest.raises(httpx2.RemoteProtocolError, match="closed the connection early"):
            await client.post(server.url, content=b"once")
        assert (await client.get(server.url)).content == b"ok"
    assert server.bodies == [b"once", b""]


async def test_a_canceled_request_closes_its_connection() -> None:
    """A late response must not reach another request."""

    def silent(head: bytes, writer: asyncio.StreamWriter) -> bool:
        return True

    async with serving(silent) as (server, client):
        pending = asyncio.create_task(client.get(server.url))

        async def request_target() -> bool:
            return len(server.bodies) == 1

        async def closed() -> bool:
            return not server.open

        await eventually(request_target, "the request arrived")
        pending.cancel()
        await asyncio.gather(pending, return_exceptions=True)
        await eventually(closed, "its connection closed")
        server.answer = whole
        assert (await client.get(server.url)).content == b"ok"


async def test_a_request_without_a_free_connection_times_out() -> None:
    """With all connections in use a request waits no longer than its timeout."""

    def silent(head: bytes, writer: asyncio.StreamWriter) -> bool:
        return True

    async with serving(silent) as (server, client):
        # Without deadlines of their own, which would free their places on a busy machine.
        waiting = [
            asyncio.create_task(client.get(server.url, timeout=None))
            for _ in range(transports.MOST_OPEN)
        ]

        async def all_requests() -> bool:
            return len(server.bodies) == transports.MOST_OPEN

        await eventually(all_requests, "every place taken")
        with pytest.raises(httpx2.PoolTimeout, match="no free connection"):
            await client.get(server.url, timeout=httpx2.Timeout(5, pool=0.01))
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
