"""Limits on the head of a request and on connections, which an application never sees.

A connection that sends no complete head in time is closed, and so is one whose head
grows without end. The timer runs from the handshake, or on a kept connection from the
first byte of the next request; waiting between requests is the keep-alive timer's.

Where there are more connections than the limit, one is closed for the newcomer: strangers
before those that the application vouched for, idle ones before busy ones, and among equals
the one that said nothing for the longest time. So nobody is kept out by connections that
only take up room.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MAX_HEAD_BYTES = 64 * 1024

VOUCH = "windlass.vouch"
"""Where an application finds, in the state of a scope, what to call for a valid request."""


class PatientProtocol(HttpToolsProtocol):
    """An HTTP/1.1 connection whose patience with a request's head ends."""

    head_seconds = 10.0
    first_seconds = 10.0
    most_connections = 1024
    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _is_known = False
    _spoke_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._spoke_at = self.loop.time()
        self._await_head(self.first_seconds)
        if len(self.connections) > self.most_connections:
            self._make_room()

    def vouch(self) -> None:
        """Keep this connection rather than others: it carried a valid request."""
        self._is_known = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_over()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._spoke_at = self.loop.time()
        super().data_received(data)
        if self._deadline is None:
            return
        self._head_bytes += len(data)
        if self._head_bytes > _MAX_HEAD_BYTES:
            self._give_up()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"][VOUCH] = self.vouch
        if self._deadline is None:
            self._await_head(self.head_seconds)

    def on_headers_complete(self) -> None:
        self._head_over()
        super().on_headers_complete()

    def _await_head(self, seconds: float) -> None:
        self._head_bytes = 0
        self._deadline = self.loop.call_later(seconds, self._give_up)

    def _head_over(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._head_over()
        self.transport.abort()

    def _make_room(self) -> None:
        others = [one for one in self.connections if isinstance(one, PatientProtocol)]
        least = min((one for one in others if one is not self), key=_worth, default=None)
        if least is not None:
            # It is told of its end only in the next turn of the loop; until then it would be
            # found again.
            self.connections.discard(least)
            least._give_up()


def _worth(one: PatientProtocol) -> tuple[bool, bool, float]:
    is_busy = one.cycle is not None and not one.cycle.response_complete
    return one._is_known, is_busy, one._spoke_at


def patient(
    *, head_seconds: float, first_seconds: float, connections: int
) -> type[PatientProtocol]:
    """The protocol with other limits."""
    limits = {
        "head_seconds": head_seconds,
        "first_seconds": min(first_seconds, head_seconds),
        "most_connections": connections,
    }
    return type("PatientProtocol", (PatientProtocol,), limits)
