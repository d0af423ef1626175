"""A git remote that is busy with a listing of refs for as long as the client waits.

A server that says nothing is given up after seconds; from one that keeps sending, the deadline of
the whole listing ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from tests.support.processes.server_loop import server_loop

_HEAD = (
    b"HTTP/1.1 200 OK\r\n"
    b"Content-Type: application/x-git-upload-pack-advertisement\r\n"
    b"Cache-Control: no-cache\r\n"
    b"Connection: close\r\n\r\n"
)
_PAUSE_SECONDS = 0.1
_REFS_AT_ONCE = 20


@contextlib.contextmanager
def endless_listing() -> Iterator[str]:
    """The URL of such a remote."""
    with server_loop() as running:
        server = running.run(asyncio.start_server(_list_refs, "127.0.0.1", 0))
        port = server.sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}/endless.git"
        finally:
            running.loop.call_soon_threadsafe(server.close)


async def _list_refs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send refs, a few at a time, until the client has gone."""
    with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_HEAD + _packet_line("# service=git-upload-pack") + b"0000")
        number = 0
        while not writer.is_closing():
            for _ in range(_REFS_AT_ONCE):
                number += 1
                writer.write(_packet_line(f"{number:040x} refs/heads/branch-{number}"))
            await writer.drain()
            await asyncio.sleep(_PAUSE_SECONDS)


def _packet_line(text: str) -> bytes:
    return f"{len(text) + 5:04x}{text}\n".encode()
