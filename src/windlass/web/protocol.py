"""Limits on the head of a request, which an application never sees.

A connection that sends no complete head in time is closed, and so is one whose head
grows without end. The timer runs from the handshake, or on a kept connection from the
first byte of the next request; waiting between requests is the keep-alive timer's.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MAX_HEAD_BYTES = 64 * 1024


class PatientProtocol(HttpToolsProtocol):
    """An HTTP/1.1 connection whose patience with a request's head ends."""

    head_seconds = 10.0
    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_over()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._deadline is None:
            return
        self._head_bytes += len(data)
        if self._head_bytes > _MAX_HEAD_BYTES:
            self._give_up()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._deadline is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        self._head_over()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._head_bytes = 0
        self._deadline = self.loop.call_later(self.head_seconds, self._give_up)

    def _head_over(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._head_over()
        self.transport.abort()


def patient(head_seconds: float) -> type[PatientProtocol]:
    """The protocol with another patience."""
    return type("PatientProtocol", (PatientProtocol,), {"head_seconds": head_seconds})
