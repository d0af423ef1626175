"""Opens connections to an API server, and encodes request heads.

asyncio gives each TLS connection a buffer of 256 KiB for as long as it lives. There may be hundreds
of connections, idle most of the time, so here the buffer is a few TLS records, for these
connections only. A connection whose opening is cancelled is closed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from asyncio import sslproto

import httpx2

from windlass.kube.http.response import Response

_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)


class _SmallTls(sslproto.SSLProtocol):
    """asyncio's own TLS over a connected socket, with a small buffer."""

    max_size = 64 << 10


async def open_connection(
    request: httpx2.Request, tls: ssl.SSLContext, tls_server_name: str = ""
) -> Response:
    """Open a connection to the server of `request`; nothing is sent yet.

    `tls_server_name` is the name that the certificate must carry, if it is not the host.
    """
    url, timeouts = request.url, request.extensions.get("timeout", {})
    port = url.port or (443 if url.scheme == "https" else 80)
    response = Response(timeouts.get("read"))
    try:
        async with asyncio.timeout(timeouts.get("connect")):
            if url.scheme == "https":
                await _secure(url.host, port, response, tls, tls_server_name or url.host)
            else:
                await _plain(url.host, port, response)
    except TimeoutError as error:
        raise httpx2.ConnectTimeout("connection timed out", request=request) from error
    except (OSError, ssl.SSLError) as error:
        raise httpx2.ConnectError(str(error), request=request) from error
    return response


def request_head(request: httpx2.Request, *, connection: bytes) -> bytes:
    """The request line and headers; `connection` is keep-alive or close."""
    lines = [request.method.encode() + b" " + request.url.raw_path + b" HTTP/1.1"]
    lines += [b": ".join(header) for header in request.headers.raw if header[0] != b"Connection"]
    if any(b"\r" in line or b"\n" in line for line in lines):
        # Such as a token file of two lines; its text must not appear in the error.
        raise httpx2.LocalProtocolError("a request header contains a line break")
    return b"\r\n".join([*lines, b"Connection: " + connection, b"", b""])


async def _secure(
    host: str, port: int, response: Response, tls: ssl.SSLContext, proven_name: str
) -> None:
    loop = asyncio.get_running_loop()
    handshake: asyncio.Future[None] = loop.create_future()
    try:
        transport, _ = await loop.create_connection(
            lambda: _SmallTls(loop, response, tls, handshake, server_hostname=proven_name),
            host,
            port,
        )
        _keep_alive(transport.get_extra_info("socket"))
        try:
            await handshake
        except BaseException:
            transport.abort()
            raise
    finally:
        # After a cancellation the protocol must not set a result or exception any more.
        handshake.cancel()


async def _plain(host: str, port: int, response: Response) -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(lambda: response, host, port)
    _keep_alive(transport.get_extra_info("socket"))


def _keep_alive(connected: socket.socket) -> None:
    if connected.family in {socket.AF_INET, socket.AF_INET6}:
        for level, option, value in _KEEPALIVE:
            connected.setsockopt(level, option, value)
