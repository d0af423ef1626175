"""An HTTP transport for questions to one server, over connections that are kept.

Rules
1. All requests go to the same server: a kept connection is taken for any of them.
2. At most `MOST_OPEN` questions are under way; who comes then waits for a place, as long as the
   request's `pool` timeout says.
3. A connection is kept only after an answer that came whole, and only if the server keeps
   it too. After any fault, cancellation included, it is closed: what may still arrive on it
   belongs to nobody.
4. A kept connection that the server ends, or on which it speaks unasked, is closed at once.
   At most `MOST_IDLE` are kept, none is used after `IDLE_SECONDS`; the one used last is used
   first, so those that nobody needs grow old.
5. Nothing is sent twice: a connection that ends under a request is a fault of the request.

The HTTP library's own pool serves the same purpose at 2.5 times the processor time per
request: it asks the kernel about every kept connection before every request and speaks TLS
through four layers of streams.

An HTTP transport for streams that stay open for minutes.

One TCP connection per request, closed with its response: no pool, so nothing waits
for a slot and nothing is reused after a fault. The answer is parsed in C, chunk
framing included, and handed on in batches as large as the socket had them ready; this
makes a watch event cost a fraction of what a general client asks for it. Requests
carry no body. Timeouts are those of the request: `connect`, and `read` between bytes.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from windlass.kube.http import connect
from windlass.kube.http.response import Response

MOST_OPEN = 64
MOST_IDLE = 16
IDLE_SECONDS = 30.0


class PooledTransport(httpx2.AsyncBaseTransport):
    """Asks one question at a time on each of its connections."""

    def __init__(self, tls: ssl.SSLContext, tls_server_name: str = "") -> None:
        self._tls = tls
        self._tls_server_name = tls_server_name
        self._places = asyncio.Semaphore(MOST_OPEN)
        self._open: set[Response] = set()
        self._kept: list[_PooledConnection] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        async with self._place(request):
            exchange = self._resumed(request) or await connect.open_connection(
                request, self._tls, self._tls_server_name
            )
            self._open.add(exchange)
            try:
                head = connect.request_head(request, connection=b"keep-alive")
                exchange.send(head + await request.aread())
                await exchange.answered()
                body = await exchange.whole()
                self._keep(exchange)
            finally:
                self._open.discard(exchange)
                exchange.close()
        return httpx2.Response(exchange.status, headers=exchange.headers, content=body)

    async def aclose(self) -> None:
        for exchange in tuple(self._open):
            exchange.close()
        while self._kept:
            self._kept.pop().transport.abort()

    @asynccontextmanager
    async def _place(self, request: httpx2.Request) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(request.extensions.get("timeout", {}).get("pool")):
                await self._places.acquire()
        except TimeoutError as error:
            text = f"{MOST_OPEN} requests were under way all the time"
            raise httpx2.PoolTimeout(text, request=request) from error
        try:
            yield
        finally:
            self._places.release()

    def _resumed(self, request: httpx2.Request) -> Response | None:
        """A kept connection, ready for `request`; None where there is none to trust."""
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._kept:
            kept = self._kept.pop()
            if kept.since < oldest or kept.is_stale():
                kept.transport.abort()
                continue
            exchange = Response(request.extensions.get("timeout", {}).get("read"))
            kept.transport.set_protocol(exchange)
            exchange.connection_made(kept.transport)
            return exchange
        return None

    def _keep(self, exchange: Response) -> None:
        transport = exchange.given_back()
        if transport is None:
            return
        self._kept.append(_PooledConnection(self, transport))
        if len(self._kept) > MOST_IDLE:
            self._kept.pop(0).transport.abort()

    def drop(self, kept: _PooledConnection) -> None:
        """A kept connection has ended or cannot be trusted."""
        if kept in self._kept:
            self._kept.remove(kept)
        kept.transport.abort()


class _PooledConnection(asyncio.Protocol):
    """A connection on which nobody waits for anything."""

    def __init__(self, owner: PooledTransport, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.since = asyncio.get_running_loop().time()
        self._owner = owner
        transport.set_protocol(self)

    def is_stale(self) -> bool:
        """Whether something has arrived of which the loop has not told us yet: an end, mostly."""
        if self.transport.is_closing():
            return True
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def data_received(self, data: bytes) -> None:
        self._owner.drop(self)

    def eof_received(self) -> None:
        self._owner.drop(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._owner.drop(self)


class StreamTransport(httpx2.AsyncBaseTransport):
    """Opens one connection per request."""

    def __init__(self, tls: ssl.SSLContext, tls_server_name: str = "") -> None:
        self._tls = tls
        self._tls_server_name = tls_server_name
        self._open: set[Response] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = await connect.open_connection(request, self._tls, self._tls_server_name)
        self._open.add(exchange)
        try:
            exchange.send(connect.request_head(request, connection=b"close"))
            await exchange.answered()
        except BaseException:
            self.release(exchange)
            raise
        return httpx2.Response(
            exchange.status, headers=exchange.headers, stream=_Body(exchange, self)
        )

    async def aclose(self) -> None:
        for exchange in tuple(self._open):
            self.release(exchange)

    def release(self, exchange: Response) -> None:
        """The response of `exchange` is done with."""
        self._open.discard(exchange)
        exchange.close()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, exchange: Response, owner: StreamTransport) -> None:
        self._exchange = exchange
        self._owner = owner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = self._exchange.read
        while batch := await read():
            yield batch

    async def aclose(self) -> None:
        self._owner.release(self._exchange)
