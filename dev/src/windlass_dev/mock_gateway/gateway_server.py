"""The mock Ignition gateway: an HTTP server over a real data directory, with failure modes.

`windlass dev gateway` and the tests run it. It listens on loopback only. At its start it
reads the data directory; afterwards only scans change what it has loaded, as with a real
one. Mode `refused` stops listening but keeps the port, so that no other process gets it
meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from starlette.applications import Starlette

from windlass.base.errors import Stalled
from windlass.web.certificates import Authority
from windlass.web.server import Server, ServerLimits
from windlass.web.tls import Tls
from windlass_dev.mock_gateway import control as mock_gateway_control
from windlass_dev.mock_gateway import gateway_modes
from windlass_dev.mock_gateway.gateway_api import MockGatewayApi, MockGatewayIdentity
from windlass_dev.mock_gateway.gateway_modes import GatewayMode, ModeSwitch
from windlass_dev.mock_gateway.mock_scans import MockScans

_HOST = "127.0.0.1"
_DAYS = 30
_LIMITS = ServerLimits(drain_seconds=1)


@dataclass(frozen=True, slots=True)
class MockGatewaySettings:
    """What to serve, where, to whom; port 0 chooses a free one."""

    data: Path
    """The data directory, with `projects` and `config`."""
    port: int = 0
    """The port of the gateway's API."""
    control_port: int = 0
    """The port for tests (`control`)."""
    tls: bool = False
    """Whether the API is served by HTTPS, with a certificate of a generated authority."""
    token: str = field(default="", repr=False)
    """The accepted API token; empty disables authentication."""
    identity: MockGatewayIdentity = field(default_factory=MockGatewayIdentity)
    """What the gateway reports of itself."""


class MockGatewayServer:
    """The gateway and its control port; `start` and `stop` belong to one event loop."""

    def __init__(self, settings: MockGatewaySettings) -> None:
        self._settings = settings
        self._modes = ModeSwitch()
        # One switch at a time: it may reload data and stop or start the server.
        self._switching = asyncio.Lock()
        self._authority = Authority.create("windlass dev gateway", datetime.now(UTC), _DAYS)
        self._tls = self._create_tls() if settings.tls else None
        # Holds the port in mode `refused`; None while the server listens.
        self._reserved_socket: socket.socket | None = None

    async def start(self) -> None:
        """Read the data, then listen; raises Fatal if a port is not available."""
        settings = self._settings
        if not await asyncio.to_thread(settings.data.is_dir):
            raise Stalled("DataMissing", f"{settings.data} is not a directory; create it first")
        scans = MockScans(settings.data)
        self._api = MockGatewayApi(scans, self._modes, settings.identity, settings.token)
        self._app: Starlette = self._api.app()
        await scans.load()
        self._server = Server(
            self._app, _HOST, settings.port, tls=self._tls, flag="--port", limits=_LIMITS
        )
        await self._server.start()
        self._port = self._server.port
        control = mock_gateway_control.control_app(self._api, self.switch, self.authority)
        self._control = Server(
            control, _HOST, settings.control_port, flag="--control-port", limits=_LIMITS
        )
        try:
            await self._control.start()
        except BaseException:
            await self._server.stop()
            raise

    async def stop(self) -> None:
        """Close both ports; running scans are cancelled."""
        await self._control.stop()
        if self._reserved_socket is None:
            await self._server.stop()
        else:
            self._reserved_socket.close()
        await self._api.scans.stop()

    async def switch(self, mode: GatewayMode) -> None:
        """Switch to `mode`; raises `ModeInvalid` for one that is not valid."""
        mode.check()
        async with self._switching:
            previous = self._modes.current
            if mode.mode == "commissioning":
                await asyncio.to_thread(
                    gateway_modes.reset_security_properties, self._settings.data
                )
            if previous.is_down and not mode.is_down:
                await self._api.scans.load()
            self._api.scans.hold(mode.mode == "never-completes")
            self._modes.current = mode
            await self._listen(mode.mode != "refused")

    @property
    def authority(self) -> bytes:
        """The authority of the gateway's certificate, as PEM."""
        return self._authority.cert_pem

    @property
    def url(self) -> str:
        """The URL of the gateway's API."""
        return f"{'https' if self._tls else 'http'}://{_HOST}:{self._port}"

    @property
    def control_url(self) -> str:
        """The URL of the control port."""
        return f"http://{_HOST}:{self._control.port}"

    async def _listen(self, listening: bool) -> None:
        if listening and self._reserved_socket is not None:
            self._server = Server(
                self._app, tls=self._tls, bound=self._reserved_socket, limits=_LIMITS
            )
            self._reserved_socket = None
            await self._server.start()
        elif not listening and self._reserved_socket is None:
            await self._server.stop()
            self._reserved_socket = _reserve_port(self._port)

    def _create_tls(self) -> Tls:
        leaf = self._authority.issue(["localhost"], [_HOST], datetime.now(UTC), _DAYS)
        return Tls(leaf.cert_pem, leaf.key_pem)


def _reserve_port(port: int) -> socket.socket:
    """A socket that is bound to the port and does not listen: connections are refused."""
    # Closed only if binding fails; the caller owns the socket that is returned.
    with contextlib.ExitStack() as stack:
        reserved = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((_HOST, port))
        stack.pop_all()
    return reserved
