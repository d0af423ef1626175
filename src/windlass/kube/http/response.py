"""One HTTP/1.1 answer as it arrives on a socket.

Rules
1. Bytes of the body are handed out in order, each once, in batches of all there is.
2. Above `HIGH_WATER` bytes that nobody has fetched the socket is no longer read.
3. The idle deadline runs only while somebody waits for bytes; any byte starts it anew.
4. After a fault everything that arrived before it is still handed out, then the fault.
5. An end that the framing does not announce is a fault, unless the framing is "until
   the connection closes".
6. The connection is given back only after a whole answer with nothing behind it, where the
   server means to keep it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httptools
import httpx2

HIGH_WATER = 256 * 1024


class Response(asyncio.Protocol):
    """Receives one answer; `answered` waits for its head, `read` for more of its body."""

    def __init__(self, idle_seconds: float | None) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._idle_seconds = idle_seconds
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._paused = False
        self._has_head = False
        self._is_framed = False
        self._is_complete = False
        self._is_kept = False
        self._fault: httpx2.TransportError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._heard = 0.0
        self._alarm: asyncio.TimerHandle | None = None

    def send(self, request: bytes) -> None:
        assert self._transport is not None
        self._transport.write(request)

    async def answered(self) -> None:
        """Wait for status and headers."""
        await self._until(lambda: self._has_head)

    async def read(self) -> bytes:
        """More of the body, at least a byte; nothing means that it is complete."""
        if not self._parts:
            await self._until(lambda: bool(self._parts) or self._is_complete)
        batch = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return batch

    async def whole(self) -> bytes:
        """The body from here to its end."""
        batches = []
        while batch := await self.read():
            batches.append(batch)
        return b"".join(batches)

    def given_back(self) -> asyncio.Transport | None:
        """The connection, for another exchange; None where it has to be closed."""
        if not self._is_complete or not self._is_kept or self._fault is not None:
            return None
        transport, self._transport = self._transport, None
        return None if transport is None or transport.is_closing() else transport

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if self._transport is not None:
            # A graceful TLS goodbye to a frozen peer would keep the socket for half a minute.
            self._transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            cause = error.__context__ or error
            self._fail(httpx2.RemoteProtocolError(f"the answer is not HTTP: {cause}"))
        if self._size > HIGH_WATER and not self._paused:
            assert self._transport is not None
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        if self._has_head and not self._is_framed and error is None:
            self._is_complete = True
        if not self._is_complete:
            text = str(error) if error else "the server closed the connection before the end"
            self._fail(httpx2.RemoteProtocolError(text))
        self._wake()

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._has_head:
            raise ValueError("a second answer to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))
        self._is_framed |= name.lower() in {b"content-length", b"transfer-encoding"}

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._size += len(body)

    def on_message_complete(self) -> None:
        self._is_complete = True
        self._is_kept = self._parser.should_keep_alive()

    # Waiting.

    async def _until(self, holds: Callable[[], bool]) -> None:
        self._heard = self._loop.time()
        self._set_alarm()
        while not holds():
            if self._fault is not None:
                raise self._fault
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, fault: httpx2.TransportError) -> None:
        if self._fault is None:
            self._fault = fault

    def _set_alarm(self) -> None:
        if self._alarm is None and self._idle_seconds is not None:
            self._alarm = self._loop.call_at(self._heard + self._idle_seconds, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if self._waiter is None:
            return
        assert self._idle_seconds is not None
        if self._loop.time() < self._heard + self._idle_seconds:
            self._set_alarm()
            return
        self._fail(httpx2.ReadTimeout("no byte in time"))
        self._wake()
