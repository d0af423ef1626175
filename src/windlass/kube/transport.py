"""An HTTP transport for streams that stay open for minutes.

One TCP connection per request, closed with its response: no pool, so nothing waits
for a slot and nothing is reused after a fault. The answer is parsed in C, chunk
framing included, and handed on in batches as large as the socket had them ready; this
makes a watch event cost a fraction of what a general client asks for it. Requests
carry no body. Timeouts are those of the request: `connect`, and `read` between bytes.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator

import httpx2

from windlass.kube import opening
from windlass.kube.exchange import Exchange


class StreamTransport(httpx2.AsyncBaseTransport):
    """Opens one connection per request."""

    def __init__(self, tls: ssl.SSLContext, tls_server_name: str = "") -> None:
        self._tls = tls
        self._tls_server_name = tls_server_name
        self._open: set[Exchange] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = await opening.exchange(request, self._tls, self._tls_server_name)
        self._open.add(exchange)
        try:
            exchange.send(opening.head(request, connection=b"close"))
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

    def release(self, exchange: Exchange) -> None:
        """The response of `exchange` is done with."""
        self._open.discard(exchange)
        exchange.close()


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
