"""Connections whose opening is canceled, at every step of it."""

from __future__ import annotations

import asyncio
import gc
import ssl
import sys
from asyncio import sslproto
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
import trustme

from tests.support.processes.polling import eventually
from windlass.kube import connection
from windlass.kube.http.transports import PooledTransport, StreamTransport

_STEPS = 40


@asynccontextmanager
async def _silent_server(authority: trustme.CA) -> AsyncIterator[tuple[str, set[object]]]:
    """A TLS server that accepts requests and never responds; its address and open connections."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    open_connections: set[object] = set()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_connections.add(writer)
        try:
            await reader.read()
        except OSError:
            pass
        finally:
            open_connections.discard(writer)
            writer.transport.abort()

    server = await asyncio.start_server(hold, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/", open_connections


def _client(kind: str, context: ssl.SSLContext) -> httpx2.AsyncClient:
    if kind != "proxied":
        chosen = StreamTransport if kind == "stream" else PooledTransport
        return httpx2.AsyncClient(transport=chosen(context))
    hooks = {"request": [connection.close_half_open]}
    return httpx2.AsyncClient(verify=context, trust_env=False, event_hooks=hooks)


@pytest.mark.parametrize("kind", ["stream", "request", "proxied"])
async def test_a_connection_canceled_while_it_opens_is_closed(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left to the garbage collector, at any step of the opening."""
    authority = trustme.CA()
    context = ssl.create_default_context()
    authority.configure_trust(context)
    left: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda about: left.append(str(about.exc_value)))
    async with _silent_server(authority) as (url, open_connections):
        for steps in range(_STEPS):
            async with _client(kind, context) as client:
                task = asyncio.create_task(client.get(url))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            del task, client

        async def nothing_open() -> bool:
            gc.collect()
            return not open_connections

        await eventually(nothing_open, "every connection closed at the server")
    assert left == []


def test_only_our_connections_have_small_buffers() -> None:
    """Other TLS connections of this process keep asyncio's defaults."""
    assert sslproto.SSLProtocol.max_size == 256 << 10
