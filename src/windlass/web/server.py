"""HTTP server: serves one ASGI application on one socket inside the running event loop.

`async with Server(app, host, port) as server:` listens when the block begins and has drained when
it ends. Signals stay with the process, nothing is logged per request. At the end idle connections
close at once, running requests get `drain_seconds`, and the rest is aborted.

`LimitedProtocol` limits request heads and connections, which an application never sees. A
connection that sends no complete head in time is closed, and so is one whose head grows too large.
The timer runs from the handshake, or on a kept connection from the first byte of the next request;
the keep-alive timer covers the time between requests. Above the limit of connections one is closed
for each new one: unknown clients before those that the application vouched for, idle ones before
busy ones, and among equals the one that was silent for the longest time. So idle connections cannot
keep clients out.

`bind_socket` binds the socket and explains why it could not.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from windlass.base.errors import Fatal
from windlass.web.body_limit import BodyGate, BodyLimit
from windlass.web.tls import Tls


def bind_socket(host: str, port: int, *, flag: str = "") -> socket.socket:
    """A bound socket; the empty host means every address, port 0 a free port.

    `flag` names the option with which a person chooses another address.
    """
    try:
        return _open_socket(host, port)
    except OSError as error:
        raise Fatal("ListenFailed", _explain(error, host, port) + _advice(flag)) from error


def _open_socket(host: str, port: int) -> socket.socket:
    if host:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _explain(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is already in use"
    if error.errno == errno.EACCES:
        return f"port {port} requires privileges"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"{host!r} is not an address of this host"
    return f"cannot listen on {host or '*'}:{port}: {error.strerror}"


def _advice(flag: str) -> str:
    return f"; change {flag}" if flag else ""


_MAX_HEAD_BYTES = 64 * 1024

VOUCH = "windlass.vouch"
"""Where an application finds, in the state of a scope, what to call for a valid request."""


class LimitedProtocol(HttpToolsProtocol):
    """An HTTP/1.1 connection with limits for the head of a request."""

    head_seconds = 10.0
    first_seconds = 10.0
    most_connections = 1024
    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _is_trusted = False
    _received_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._received_at = self.loop.time()
        self._start_head_timer(self.first_seconds)
        if len(self.connections) > self.most_connections:
            self._make_room()

    def vouch(self) -> None:
        """Keep this connection rather than others: it carried a valid request."""
        self._is_trusted = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received_at = self.loop.time()
        super().data_received(data)
        if self._deadline is None:
            return
        self._head_bytes += len(data)
        if self._head_bytes > _MAX_HEAD_BYTES:
            self._abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"][VOUCH] = self.vouch
        if self._deadline is None:
            self._start_head_timer(self.head_seconds)

    def on_headers_complete(self) -> None:
        self._stop_head_timer()
        super().on_headers_complete()

    def _start_head_timer(self, seconds: float) -> None:
        self._head_bytes = 0
        self._deadline = self.loop.call_later(seconds, self._abort)

    def _stop_head_timer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _abort(self) -> None:
        self._stop_head_timer()
        self.transport.abort()

    def _make_room(self) -> None:
        others = [
            connection for connection in self.connections if isinstance(connection, LimitedProtocol)
        ]
        least = min(
            (connection for connection in others if connection is not self),
            key=_eviction_order,
            default=None,
        )
        if least is not None:
            # uvicorn removes it only in the next iteration of the loop; until then it would be
            # selected again.
            self.connections.discard(least)
            least._abort()


def _eviction_order(connection: LimitedProtocol) -> tuple[bool, bool, float]:
    is_busy = connection.cycle is not None and not connection.cycle.response_complete
    return connection._is_trusted, is_busy, connection._received_at


def limited_protocol(
    *, head_seconds: float, first_seconds: float, connections: int
) -> type[LimitedProtocol]:
    """The protocol with other limits."""
    limits = {
        "head_seconds": head_seconds,
        "first_seconds": min(first_seconds, head_seconds),
        "most_connections": connections,
    }
    return type("PatientProtocol", (LimitedProtocol,), limits)


_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a server."""

    # Largest body of a request.
    body_bytes: int = 8 * _MIB
    # Deadline of a body.
    body_seconds: float = 10.0
    # Largest sum of the bodies of all requests.
    bodies_bytes: int = 64 * _MIB
    # Deadline of the head of a request on a kept connection.
    head_seconds: float = 10.0
    # From the handshake to the head of the first request, and for the handshake itself:
    # proper clients send at once, and others only occupy connections.
    first_seconds: float = 3.0
    # Open connections, after which one is closed for each new one.
    connections: int = 1024
    # Longer than the 90 s after which the API server closes an idle connection itself,
    # so that we never close one it is about to use.
    keep_alive_seconds: int = 120
    # Time for running requests when the server stops.
    drain_seconds: int = 5


class _Uvicorn(uvicorn.Server):
    """uvicorn without its signal handlers; `listening` is set once it accepts connections."""

    def __init__(
        self, config: uvicorn.Config, protocol: type[LimitedProtocol], handshake_seconds: float
    ) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._protocol = protocol
        self._handshake_seconds = handshake_seconds

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, as uvicorn does, but with a deadline of ours for the handshake."""
        config = self.config
        make = functools.partial(
            self._protocol,
            config=config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        self.servers = [
            await asyncio.get_running_loop().create_server(
                make,
                sock=each,
                ssl=config.ssl,
                backlog=config.backlog,
                ssl_handshake_timeout=self._handshake_seconds if config.ssl else None,
            )
            for each in sockets or ()
        ]
        self.started = True
        self.listening.set()


class Server:
    """A listening application; leaving the block stops it."""

    def __init__(
        self,
        app: ASGIApp,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        tls: Tls | None = None,
        bound: socket.socket | None = None,
        flag: str = "",
        limits: ServerLimits | None = None,
        gate: BodyGate | None = None,
    ) -> None:
        self._app = app
        self._gate = gate
        self._address = (host, port)
        self._tls = tls
        self._bound = bound
        self._flag = flag
        self._limits = limits or ServerLimits()
        self._uvicorn: _Uvicorn | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            # Cancelled while starting, the server would keep listening.
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def port(self) -> int:
        assert self._bound is not None, "a server has a port once it was started"
        return self._port

    async def start(self) -> None:
        """Listen; Fatal with advice where the port cannot be bound."""
        if self._bound is None:
            self._bound = await asyncio.to_thread(bind_socket, *self._address, flag=self._flag)
        self._port: int = self._bound.getsockname()[1]
        protocol = limited_protocol(
            head_seconds=self._limits.head_seconds,
            first_seconds=self._limits.first_seconds,
            connections=self._limits.connections,
        )
        self._uvicorn = _Uvicorn(self._config(protocol), protocol, self._limits.first_seconds)
        self._task = asyncio.create_task(
            self._uvicorn.serve(sockets=[self._bound]), name=f"serve :{self._port}"
        )
        ready = asyncio.create_task(self._uvicorn.listening.wait())
        try:
            await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                await self._task
        finally:
            ready.cancel()

    async def wait(self) -> None:
        """Wait until the server has ended."""
        assert self._task is not None, "only a started server can end"
        await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Stop accepting, drain within the deadline, cut the rest."""
        if self._uvicorn is None or self._task is None:
            return
        self._uvicorn.should_exit = True
        try:
            await self._task
        finally:
            for connection in list(self._uvicorn.server_state.connections):
                connection.transport.abort()

    def _config(self, protocol: type[LimitedProtocol]) -> uvicorn.Config:
        limits = self._limits
        config = uvicorn.Config(
            self._guarded(),
            http=protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=limits.keep_alive_seconds,
            timeout_graceful_shutdown=limits.drain_seconds,
        )
        config.load()
        config.ssl = self._tls.context if self._tls else None
        return config

    def _guarded(self) -> BodyLimit:
        limits = self._limits
        return BodyLimit(
            self._app,
            cap_bytes=limits.body_bytes,
            seconds=limits.body_seconds,
            budget_bytes=limits.bodies_bytes,
            gate=self._gate,
        )
