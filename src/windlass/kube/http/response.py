"""One HTTP/1.1 response as it arrives on a socket.

Rules
1. Bytes of the body are delivered in order, each once, in batches of all that arrived.
2. Above `HIGH_WATER` unread bytes the socket is no longer read.
3. The idle deadline runs only while a reader waits for bytes; any byte restarts it.
4. After a fault everything that arrived before it is still delivered, then the fault is raised.
5. An end that the framing does not announce is a fault, unless the framing is "until the connection
   closes".
6. The connection is given back only after a complete response with nothing behind it, where the
   server keeps it alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httptools
import httpx2

HIGH_WATER = 256 * 1024


class Response(asyncio.Protocol):
    """Protocol that receives one response; `answered` waits for its head, `read` for its body."""

    def __init__(self, idle_seconds: float | None) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._idle_seconds = idle_seconds
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        # None before the connection is made and after it was given back.
        self._transport: asyncio.Transport | None = None
        # Body bytes that were not read yet, and their number.
        self._parts: list[bytes] = []
        self._size = 0
        # Whether reading from the socket is paused (rule 2).
        self._paused = False
        # Whether status and headers are complete.
        self._has_head = False
        # Whether the headers announce where the body ends.
        self._is_framed = False
        # Whether the whole response has arrived.
        self._is_complete = False
        # Whether the server keeps the connection after this response.
        self._keeps_alive = False
        # The first fault; raised after the bytes before it were read.
        self._fault: httpx2.TransportError | None = None
        # Set while a reader waits.
        self._waiter: asyncio.Future[None] | None = None
        # When the last byte arrived or the wait began, on the clock of the loop.
        self._received_at = 0.0
        # Checks the idle deadline; None while it does not run.
        self._idle_timer: asyncio.TimerHandle | None = None

    def send(self, request: bytes) -> None:
        assert self._transport is not None
        self._transport.write(request)

    async def answered(self) -> None:
        """Wait for status and headers."""
        await self._until(lambda: self._has_head)

    async def read(self) -> bytes:
        """The next batch of the body; empty: it is complete."""
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
        """The rest of the body."""
        batches = []
        while batch := await self.read():
            batches.append(batch)
        return b"".join(batches)

    def given_back(self) -> asyncio.Transport | None:
        """The connection, for another request; None where it has to be closed."""
        if not self._is_complete or not self._keeps_alive or self._fault is not None:
            return None
        transport, self._transport = self._transport, None
        return None if transport is None or transport.is_closing() else transport

    def close(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._transport is not None:
            # A graceful TLS shutdown with a frozen peer would keep the socket for half a minute.
            self._transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received_at = self._loop.time()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            cause = error.__context__ or error
            self._fail(httpx2.RemoteProtocolError(f"the response is not valid HTTP: {cause}"))
        if self._size > HIGH_WATER and not self._paused:
            assert self._transport is not None
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        if self._has_head and not self._is_framed and error is None:
            self._is_complete = True
        if not self._is_complete:
            text = str(error) if error else "the server closed the connection early"
            self._fail(httpx2.RemoteProtocolError(text))
        self._wake()

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._has_head:
            raise ValueError("a second response to one request")

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
        self._keeps_alive = self._parser.should_keep_alive()

    # Waiting.

    async def _until(self, holds: Callable[[], bool]) -> None:
        self._received_at = self._loop.time()
        self._start_idle_timer()
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

    def _start_idle_timer(self) -> None:
        if self._idle_timer is None and self._idle_seconds is not None:
            self._idle_timer = self._loop.call_at(
                self._received_at + self._idle_seconds, self._on_idle_timer
            )

    def _on_idle_timer(self) -> None:
        self._idle_timer = None
        if self._waiter is None:
            return
        assert self._idle_seconds is not None
        if self._loop.time() < self._received_at + self._idle_seconds:
            self._start_idle_timer()
            return
        self._fail(httpx2.ReadTimeout("read timed out"))
        self._wake()
