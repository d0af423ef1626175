"""Serves one ASGI application on one socket inside the running event loop.

`async with Server(app, host, port) as server:` listens when the block begins and has
drained when it ends. Signals stay with the process, nothing is written per request.
At the end idle connections close at once, running requests get `drain_seconds`, and
whatever is left then is cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from windlass.web import listener
from windlass.web.intake import BodyIntake, Gate
from windlass.web.protocol import PatientProtocol, patient
from windlass.web.tls import Tls

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server puts up with."""

    body_bytes: int = 8 * _MIB
    body_seconds: float = 10.0
    bodies_bytes: int = 64 * _MIB
    head_seconds: float = 10.0
    # From the handshake to the head of the first request, and for the handshake itself:
    # clients that mean it speak at once, and those that do not only take up room.
    first_seconds: float = 3.0
    connections: int = 1024
    # Longer than the 90 s after which the API server closes an idle connection itself,
    # so that we never close one it is about to use.
    keep_alive_seconds: int = 120
    drain_seconds: int = 5


class _Uvicorn(uvicorn.Server):
    """uvicorn without its signal handlers, saying when it listens."""

    def __init__(
        self, config: uvicorn.Config, protocol: type[PatientProtocol], handshake_seconds: float
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
        limits: Limits | None = None,
        gate: Gate | None = None,
    ) -> None:
        self._app = app
        self._gate = gate
        self._address = (host, port)
        self._tls = tls
        self._bound = bound
        self._flag = flag
        self._limits = limits or Limits()
        self._uvicorn: _Uvicorn | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            # Cancelled on the way, the server would go on listening for nobody.
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
        """Listen; a port that cannot be had is a Fatal that names the way out."""
        if self._bound is None:
            self._bound = await asyncio.to_thread(listener.bind, *self._address, flag=self._flag)
        self._port: int = self._bound.getsockname()[1]
        protocol = patient(
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
        """Return once the server has ended, however it came to that."""
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

    def _config(self, protocol: type[PatientProtocol]) -> uvicorn.Config:
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

    def _guarded(self) -> BodyIntake:
        limits = self._limits
        return BodyIntake(
            self._app,
            cap_bytes=limits.body_bytes,
            seconds=limits.body_seconds,
            budget_bytes=limits.bodies_bytes,
            gate=self._gate,
        )
