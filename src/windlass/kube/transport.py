"""An HTTP transport for streams that stay open for minutes.

One TCP connection per request, closed with its response: no pool, so nothing waits
for a slot and nothing is reused after a fault. The answer is parsed in C, chunk
framing included, and handed on in batches as large as the socket had them ready; this
makes a watch event cost a fraction of what a general client asks for it. Requests
carry no body. Timeouts are those of the request: `connect`, and `read` between bytes.

asyncio gives each TLS connection a buffer of a quarter of a megabyte for as long as it
lives. There may be hundreds of streams and they are silent most of the time, so here it is
a few records of TLS, for these connections and no others of the process.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from asyncio import sslproto
from collections.abc import AsyncIterator

import httpx2

from windlass.kube.exchange import Exchange

_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)


class _SmallTls(sslproto.SSLProtocol):
    """asyncio's own TLS over a connected socket, with a small buffer."""

    max_size = 64 << 10


class StreamTransport(httpx2.AsyncBaseTransport):
    """Opens one connection per request."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self._open: set[Exchange] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        timeouts = request.extensions.get("timeout", {})
        exchange = await self._connect(request, timeouts.get("connect"), timeouts.get("read"))
        self._open.add(exchange)
        try:
            exchange.send(_head(request))
            await exchange.answered()
        except BaseException:
            self._forget(exchange)
            raise
        return httpx2.Response(
            exchange.status, headers=exchange.headers, stream=_Body(exchange, self)
        )

    async def aclose(self) -> None:
        for exchange in tuple(self._open):
            self._forget(exchange)

    async def _connect(
        self, request: httpx2.Request, connect_seconds: float | None, read_seconds: float | None
    ) -> Exchange:
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        try:
            async with asyncio.timeout(connect_seconds):
                if url.scheme == "https":
                    return await self._secure(url.host, port, Exchange(read_seconds))
                return await _plain(url.host, port, Exchange(read_seconds))
        except TimeoutError as error:
            raise httpx2.ConnectTimeout("connecting took too long", request=request) from error
        except (OSError, ssl.SSLError) as error:
            raise httpx2.ConnectError(str(error), request=request) from error

    async def _secure(self, host: str, port: int, exchange: Exchange) -> Exchange:
        loop = asyncio.get_running_loop()
        shaken: asyncio.Future[None] = loop.create_future()
        try:
            transport, _ = await loop.create_connection(
                lambda: _SmallTls(loop, exchange, self._tls, shaken, server_hostname=host),
                host,
                port,
            )
            _keep_alive(transport.get_extra_info("socket"))
            try:
                await shaken
            except BaseException:
                transport.abort()
                raise
        finally:
            # Whoever gave up hears of no failure any more.
            shaken.cancel()
        return exchange

    def _forget(self, exchange: Exchange) -> None:
        self._open.discard(exchange)
        exchange.close()

    def release(self, exchange: Exchange) -> None:
        """The response of `exchange` is done with."""
        self._forget(exchange)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, exchange: Exchange, owner: StreamTransport) -> None:
        self._exchange = exchange
        self._owner = owner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = self._exchange.read
        while batch := await read():
            yield batch

    async def aclose(self) -> None:
        self._owner.release(self._exchange)


async def _plain(host: str, port: int, exchange: Exchange) -> Exchange:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(lambda: exchange, host, port)
    _keep_alive(transport.get_extra_info("socket"))
    return exchange


def _head(request: httpx2.Request) -> bytes:
    lines = [request.method.encode() + b" " + request.url.raw_path + b" HTTP/1.1"]
    lines += [b": ".join(header) for header in request.headers.raw if header[0] != b"Connection"]
    if any(b"\r" in line or b"\n" in line for line in lines):
        # Such as a token file of two lines; its text must not appear in the error.
        raise httpx2.LocalProtocolError("a header of the request holds a line break")
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])


def _keep_alive(connected: socket.socket) -> None:
    if connected.family in {socket.AF_INET, socket.AF_INET6}:
        for level, option, value in _KEEPALIVE:
            connected.setsockopt(level, option, value)
