"""One request to git's own `http-backend`, bodies streamed in both directions.

`GitRequest` is the ASGI request as git's server side sees it; `run_backend` passes it to
the child. The child lives in its own process group and is gone at the deadline, when the
client goes away, and when the response is complete.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from windlass.base import process_group

AsgiMessage = MutableMapping[str, Any]
AsgiScope = AsgiMessage
AsgiReceive = Callable[[], Awaitable[AsgiMessage]]
AsgiSend = Callable[[AsgiMessage], Awaitable[None]]
RawHeaders = tuple[tuple[bytes, bytes], ...]


class ClientGone(Exception):
    """The client disconnected before the request or response was complete."""


class GitRequest:
    """An ASGI request to a repository, and the ways to respond to it."""

    def __init__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: str = scope["query_string"].decode("latin-1")
        self.headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        self.receive = receive
        self.send = send

    @property
    def service(self) -> str:
        """upload-pack or receive-pack; empty for the files of the dumb protocol."""
        requested = parse_qs(self.query).get("service", [""])[0]
        return (requested or self.path.rpartition("/")[2]).removeprefix("git-").replace("refs", "")

    @property
    def repository(self) -> str:
        """The path of the repository, without what the protocol appends."""
        for suffix in ("/info/refs", "/git-upload-pack", "/git-receive-pack"):
            if self.path.endswith(suffix):
                return self.path.removesuffix(suffix)
        return self.path.partition(".git/")[0]

    async def body(self) -> AsyncIterator[bytes]:
        """The body, chunk by chunk; raises `ClientGone` if the client disconnects."""
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            yield message.get("body", b"")
            more = message.get("more_body", False)

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Send the head of the response."""
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def send_part(self, body: bytes, *, more: bool = True) -> None:
        """Send a part of the body; the last one has `more=False`."""
        await self.send({"type": "http.response.body", "body": body, "more_body": more})

    async def reply(self, status: int, body: bytes, headers: RawHeaders = ()) -> None:
        """Send a complete response."""
        await self.start(status, ((b"content-length", str(len(body)).encode()), *headers))
        await self.send_part(body, more=False)

    async def refuse_credentials(self) -> None:
        """Send 401 with a challenge for basic authentication."""
        challenge = (b"www-authenticate", b'Basic realm="windlass dev git"')
        await self.reply(401, b"credentials needed\n", (challenge,))


_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class CgiResponse:
    """A CGI response: status, headers, and an iterator over the body."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: AsyncIterator[bytes]


@contextlib.asynccontextmanager
async def run_backend(
    git: str, variables: Mapping[str, str], body: AsyncIterator[bytes]
) -> AsyncIterator[CgiResponse]:
    """Run `git http-backend` on a request body; its response can be read inside the block."""
    process = await process_group.started(
        git,
        "http-backend",
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env=dict(variables),
    )
    feeding = asyncio.create_task(_feed(process, body))
    try:
        assert process.stdout is not None
        status, headers = await _read_head(process.stdout)
        yield CgiResponse(status, headers, _read_body(process.stdout))
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        await process_group.end(process)


async def _feed(process: Process, body: AsyncIterator[bytes]) -> None:
    assert process.stdin is not None
    try:
        async for chunk in body:
            process.stdin.write(chunk)
            await process.stdin.drain()
        process.stdin.close()
        await process.stdin.wait_closed()
    except ClientGone:
        # The backend would read a body that ends too early again and again, forever.
        process_group.kill(process)
    except (BrokenPipeError, ConnectionResetError):
        return


async def _read_head(stream: asyncio.StreamReader) -> tuple[int, tuple[tuple[bytes, bytes], ...]]:
    status = 200
    headers: list[tuple[bytes, bytes]] = []
    while line := (await stream.readline()).strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"status":
            status = int(value.split()[0])
        else:
            headers.append((name.lower(), value.strip()))
    # Without headers the backend died before it wrote a response.
    if not headers:
        return 500, ()
    return status, tuple(headers)


async def _read_body(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while chunk := await stream.read(_CHUNK):
        yield chunk
