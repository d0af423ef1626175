"""Opens connections to an API server, and puts requests into bytes.

asyncio gives each TLS connection a buffer of a quarter of a megabyte for as long as it
lives. There may be hundreds of connections and they are silent most of the time, so here
it is a few records of TLS, for these connections and no others of the process. A
connection whose opening is given up is closed.
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
    """A new connection to where `request` goes, before anything was sent.

    `tls_server_name` is the name that the server must prove to have, if it is not its host.
    """
    url, timeouts = request.url, request.extensions.get("timeout", {})
    port = url.port or (443 if url.scheme == "https" else 80)
    opened = Response(timeouts.get("read"))
    try:
        async with asyncio.timeout(timeouts.get("connect")):
            if url.scheme == "https":
                await _secure(url.host, port, opened, tls, tls_server_name or url.host)
            else:
                await _plain(url.host, port, opened)
    except TimeoutError as error:
        raise httpx2.ConnectTimeout("connecting took too long", request=request) from error
    except (OSError, ssl.SSLError) as error:
        raise httpx2.ConnectError(str(error), request=request) from error
    return opened


def request_head(request: httpx2.Request, *, connection: bytes) -> bytes:
    """The first line and the headers; `connection` says whether it is the last request."""
    lines = [request.method.encode() + b" " + request.url.raw_path + b" HTTP/1.1"]
    lines += [b": ".join(header) for header in request.headers.raw if header[0] != b"Connection"]
    if any(b"\r" in line or b"\n" in line for line in lines):
        # Such as a token file of two lines; its text must not appear in the error.
        raise httpx2.LocalProtocolError("a header of the request holds a line break")
    return b"\r\n".join([*lines, b"Connection: " + connection, b"", b""])


async def _secure(
    host: str, port: int, opened: Response, tls: ssl.SSLContext, proven_name: str
) -> None:
    loop = asyncio.get_running_loop()
    shaken: asyncio.Future[None] = loop.create_future()
    try:
        transport, _ = await loop.create_connection(
            lambda: _SmallTls(loop, opened, tls, shaken, server_hostname=proven_name), host, port
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


async def _plain(host: str, port: int, opened: Response) -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(lambda: opened, host, port)
    _keep_alive(transport.get_extra_info("socket"))


def _keep_alive(connected: socket.socket) -> None:
    if connected.family in {socket.AF_INET, socket.AF_INET6}:
        for level, option, value in _KEEPALIVE:
            connected.setsockopt(level, option, value)
