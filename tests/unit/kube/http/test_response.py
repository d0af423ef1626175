"""One HTTP response as it arrives, fed byte by byte."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from windlass.kube.http.response import HIGH_WATER, Response

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class _Socket(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None:
        self.reading = False


def _exchange(idle_seconds: float | None = None) -> tuple[Response, _Socket]:
    exchange, socket = Response(idle_seconds), _Socket()
    exchange.connection_made(socket)
    return exchange, socket


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def test_batches_until_the_end() -> None:
    """Everything that has arrived is one batch; the last chunk is the end."""
    exchange, _ = _exchange()
    exchange.data_received(HEAD + _chunk(b"a\n") + _chunk(b"b\n"))
    await exchange.answered()
    assert exchange.status == 200
    assert await exchange.read() == b"a\nb\n"
    exchange.data_received(b"0\r\n\r\n")
    assert await exchange.read() == b""


async def test_a_fault_comes_after_the_received_bytes() -> None:
    """Bytes before a fault are returned before it is raised."""
    exchange, _ = _exchange()
    exchange.data_received(HEAD + _chunk(b"a\n"))
    exchange.connection_lost(None)
    assert await exchange.read() == b"a\n"
    with pytest.raises(httpx2.RemoteProtocolError, match="closed the connection early"):
        await exchange.read()


async def test_body_until_close() -> None:
    """Without framing the end of the connection is the end of the body."""
    exchange, _ = _exchange()
    exchange.data_received(b"HTTP/1.0 200 OK\r\n\r\nabc")
    exchange.connection_lost(None)
    assert await exchange.read() == b"abc"
    assert await exchange.read() == b""


async def test_not_http() -> None:
    """Garbage instead of a response is a fault."""
    exchange, _ = _exchange()
    exchange.data_received(b"SSH-2.0-OpenSSH\r\n")
    with pytest.raises(httpx2.RemoteProtocolError, match="not valid HTTP"):
        await exchange.answered()


async def test_slow_consumer_stops_the_socket() -> None:
    """Unread bytes are bounded; reading them resumes the socket."""
    exchange, socket = _exchange()
    exchange.data_received(HEAD + _chunk(b"x" * (HIGH_WATER + 1)))
    assert not socket.reading
    assert len(await exchange.read()) == HIGH_WATER + 1
    assert socket.reading


async def test_any_byte_counts_against_idleness() -> None:
    """The deadline restarts with every byte, complete chunk or not."""
    exchange, _ = _exchange(idle_seconds=10)
    loop = asyncio.get_running_loop()
    exchange.data_received(HEAD)
    for at, byte in zip((8, 16, 24), b"1\r\n", strict=True):
        loop.call_at(loop.time() + at, exchange.data_received, bytes([byte]))
    started = loop.time()
    with pytest.raises(httpx2.ReadTimeout):
        await exchange.read()
    assert loop.time() - started == pytest.approx(34, abs=0.5)
    exchange.close()


async def test_slow_consumer_is_not_idle() -> None:
    """Time in which no caller waits for bytes does not count as silence of the server."""
    exchange, _ = _exchange(idle_seconds=10)
    loop = asyncio.get_running_loop()
    exchange.data_received(HEAD + _chunk(b"a"))
    assert await exchange.read() == b"a"
    await asyncio.sleep(100)
    loop.call_later(9, exchange.data_received, _chunk(b"b"))
    assert await exchange.read() == b"b"
    exchange.close()
