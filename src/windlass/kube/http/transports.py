"""HTTP transports for one API server: pooled for requests, one connection each for streams.

`PooledTransport`
1. All requests go to the same server: an idle connection is used for any of them.
2. At most `MOST_OPEN` requests are under way; further ones wait for a slot, as long as the `pool`
   timeout of the request.
3. A connection is kept only after a complete response, and only if the server keeps it too. After
   any fault, cancellation included, it is closed: no request may get what still arrives on it.
4. An idle connection that the server closes, or sends on unasked, is closed at once. At most
   `MOST_IDLE` are kept, none is used after `IDLE_SECONDS`; the one used last is used first, so
   surplus ones expire.
5. Nothing is sent twice: a connection that ends under a request is a fault of the request.

The pool of the HTTP library does the same at 2.5 times the processor time per request: it polls the
kernel for every idle connection before every request and runs TLS through four layers of streams.

`StreamTransport` is for watches, which stay open for minutes: one TCP connection per request,
closed with its response, so nothing waits for a slot and nothing is reused after a fault. The
response is parsed in C, chunk framing included, and delivered in batches as large as the socket had
them ready; a watch event costs a fraction of what a general client needs. Requests have no body.
Timeouts are those of the request: `connect`, and `read` between bytes.
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
    """Sends one request at a time on each of its connections."""

    def __init__(self, tls: ssl.SSLContext, tls_server_name: str = "") -> None:
        self._tls = tls
        self._tls_server_name = tls_server_name
        self._slots = asyncio.Semaphore(MOST_OPEN)
        # Responses under way.
        self._open: set[Response] = set()
        # Idle connections, the one used last at the end.
        self._idle: list[_PooledConnection] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        async with self._slot(request):
            exchange = self._reuse_idle(request) or await connect.open_connection(
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
        while self._idle:
            self._idle.pop().transport.abort()

    @asynccontextmanager
    async def _slot(self, request: httpx2.Request) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(request.extensions.get("timeout", {}).get("pool")):
                await self._slots.acquire()
        except TimeoutError as error:
            text = f"no free connection: {MOST_OPEN} requests in progress"
            raise httpx2.PoolTimeout(text, request=request) from error
        try:
            yield
        finally:
            self._slots.release()

    def _reuse_idle(self, request: httpx2.Request) -> Response | None:
        """An idle connection, prepared for `request`; None where there is no usable one."""
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle:
            idle = self._idle.pop()
            if idle.since < oldest or idle.is_stale():
                idle.transport.abort()
                continue
            exchange = Response(request.extensions.get("timeout", {}).get("read"))
            idle.transport.set_protocol(exchange)
            exchange.connection_made(idle.transport)
            return exchange
        return None

    def _keep(self, exchange: Response) -> None:
        transport = exchange.given_back()
        if transport is None:
            return
        self._idle.append(_PooledConnection(self, transport))
        if len(self._idle) > MOST_IDLE:
            self._idle.pop(0).transport.abort()

    def drop(self, idle: _PooledConnection) -> None:
        """Close an idle connection that has ended or cannot be trusted."""
        if idle in self._idle:
            self._idle.remove(idle)
        idle.transport.abort()


class _PooledConnection(asyncio.Protocol):
    """Protocol of an idle connection; any event on it closes it."""

    def __init__(self, owner: PooledTransport, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.since = asyncio.get_running_loop().time()
        self._owner = owner
        transport.set_protocol(self)

    def is_stale(self) -> bool:
        """Whether data, mostly its end, has arrived that the loop has not delivered yet."""
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
        """Close the connection of a response that is finished."""
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
