"""ASGI middleware that reads the whole request body first, within a size limit and a deadline.

The application gets the whole body in one message or never runs: 413 for more than the limit (by
the declared length where there is one), 408 for a body that comes too slowly, 503 while the bodies
of all requests together exceed a budget. No more than the limit is held of any request.

A gate decides by the head alone: a request that it does not admit gets its response before a byte
of the body is read, so it cannot use up the budget.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# How long a refused sender may go on sending, so that it reads the answer before the
# connection is reset under it.
_LINGER_SECONDS = 2.0


class BodyGate(Protocol):
    """Admits requests by their head; of each one admitted, it learns that the body is being read.

    `failed` is called for those whose body did not arrive.
    """

    def admits(self, scope: Scope) -> bool: ...

    def opened(self, scope: Scope) -> None: ...

    def failed(self, scope: Scope) -> None: ...


class _Refused(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


class BodyLimit:
    """Passes only complete requests within the limits to `app`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        cap_bytes: int,
        seconds: float,
        budget_bytes: int,
        gate: BodyGate | None = None,
    ) -> None:
        self._app = app
        self._gate = gate
        self._cap = cap_bytes
        self._seconds = seconds
        self._budget = budget_bytes
        # Bytes of all bodies in memory.
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._gate is not None and not self._gate.admits(scope):
            await _refuse(_Refused(404, "not found\n"), receive, send)
            return
        if self._gate is not None:
            self._gate.opened(scope)
        body = bytearray()
        try:
            complete = await self._receive_body(scope, receive, body)
            if complete:
                await self._app(scope, _replayed(bytes(body), receive), send)
            else:
                self._report_failed(scope)
        except _Refused as refusal:
            self._report_failed(scope)
            await _refuse(refusal, receive, send)
        finally:
            self._held -= len(body)

    def _report_failed(self, scope: Scope) -> None:
        if self._gate is not None:
            self._gate.failed(scope)

    async def _receive_body(self, scope: Scope, receive: Receive, body: bytearray) -> bool:
        if _declared_length(scope) > self._cap:
            raise self._too_large()
        try:
            async with asyncio.timeout(self._seconds):
                return await self._read(receive, body)
        except TimeoutError as error:
            raise _Refused(408, f"the body did not arrive in {self._seconds:g} s\n") from error

    async def _read(self, receive: Receive, body: bytearray) -> bool:
        """Fill `body`; False when the sender left before its end."""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return False
            self._append(message.get("body", b""), body)
            if not message.get("more_body", False):
                return True

    def _append(self, chunk: bytes, body: bytearray) -> None:
        if len(body) + len(chunk) > self._cap:
            raise self._too_large()
        if self._held + len(chunk) > self._budget:
            raise _Refused(503, "too many large requests; try again later\n")
        self._held += len(chunk)
        body += chunk

    def _too_large(self) -> _Refused:
        return _Refused(413, f"the body is larger than {self._cap} bytes\n")


def _declared_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


def _replayed(body: bytes, receive: Receive) -> Receive:
    is_delivered = False

    async def replay() -> Message:
        nonlocal is_delivered
        if is_delivered:
            return await receive()
        is_delivered = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _refuse(refusal: _Refused, receive: Receive, send: Send) -> None:
    text = refusal.sentence.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(text)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": text, "more_body": True})
    if refusal.status == 413:
        await _let_finish(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _let_finish(receive: Receive) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            message: Message = {"more_body": True}
            while message.get("more_body", False):
                message = await receive()
