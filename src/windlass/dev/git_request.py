"""An HTTP request as git's server side sees it, on top of ASGI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

Message = MutableMapping[str, Any]
Scope = Message
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]


class ClientGone(Exception):
    """The client went away before it had said or heard everything."""


class GitRequest:
    """One request, and the ways to answer it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        """upload-pack, receive-pack, or nothing for the files of the dumb protocol."""
        asked = parse_qs(self.query).get("service", [""])[0]
        return (asked or self.path.rpartition("/")[2]).removeprefix("git-").replace("refs", "")

    @property
    def repository(self) -> str:
        for end in ("/info/refs", "/git-upload-pack", "/git-receive-pack"):
            if self.path.endswith(end):
                return self.path.removesuffix(end)
        return self.path.partition(".git/")[0]

    async def body(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            yield message.get("body", b"")
            more = message.get("more_body", False)

    async def start(self, status: int, headers: Headers) -> None:
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def part(self, body: bytes, *, more: bool = True) -> None:
        await self.send({"type": "http.response.body", "body": body, "more_body": more})

    async def reply(self, status: int, body: bytes, headers: Headers = ()) -> None:
        await self.start(status, ((b"content-length", str(len(body)).encode()), *headers))
        await self.part(body, more=False)

    async def refuse_credentials(self) -> None:
        challenge = (b"www-authenticate", b'Basic realm="windlass desk"')
        await self.reply(401, b"credentials needed\n", (challenge,))
