"""The control port of the mock gateway: tests switch modes and inspect what it has loaded.

| Request | Does |
|---|---|
| GET /mode, POST /mode | reads, switches the mode: `{"mode": "500", "requests": 1}` |
| GET /posts, GET /gets | scan requests by kind, whatever the response |
| GET /scans | finished scans by kind |
| GET /loaded | data-relative path to sha256 of everything the gateway has loaded |
| GET /torn | every torn read so far, with its path and problem |
| POST /rescan | reads the data again now, without counting as a scan |
| GET /ca.pem | the authority of the gateway's certificate |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from windlass.base.errors import WindlassError
from windlass_dev.mock_gateway.gateway_api import MockGatewayApi
from windlass_dev.mock_gateway.gateway_modes import GatewayMode

_Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def control_app(
    gateway: MockGatewayApi, switch: Callable[[GatewayMode], Awaitable[None]], authority: bytes
) -> Starlette:
    """The application of the control port of `gateway`; `switch` changes its mode."""

    async def certificate(request: Request) -> Response:
        return Response(authority, media_type="application/x-pem-file")

    return Starlette(
        routes=[
            *_read_routes(gateway),
            Route("/mode", _switch_endpoint(gateway, switch), methods=["POST"]),
            Route("/rescan", _rescan_endpoint(gateway), methods=["POST"]),
            Route("/ca.pem", certificate, methods=["GET"]),
        ]
    )


def _read_routes(gateway: MockGatewayApi) -> list[Route]:
    scans = gateway.scans
    readers: dict[str, Callable[[], Any]] = {
        "/mode": lambda: gateway.modes.current,
        "/posts": lambda: gateway.posts,
        "/gets": lambda: gateway.gets,
        "/scans": lambda: scans.finished,
        "/loaded": lambda: scans.loaded,
        "/torn": lambda: scans.torn,
    }
    return [Route(path, _read_endpoint(value), methods=["GET"]) for path, value in readers.items()]


def _switch_endpoint(
    gateway: MockGatewayApi, switch: Callable[[GatewayMode], Awaitable[None]]
) -> _Endpoint:
    async def switch_mode(request: Request) -> Response:
        try:
            await switch(msgspec.json.decode(await request.body(), type=GatewayMode))
        except (msgspec.DecodeError, WindlassError) as error:
            return PlainTextResponse(f"{error}\n", 400)
        return _json_response(gateway.modes.current)

    return switch_mode


def _rescan_endpoint(gateway: MockGatewayApi) -> _Endpoint:
    async def rescan(request: Request) -> Response:
        await gateway.scans.load()
        return _json_response(gateway.scans.loaded)

    return rescan


def _read_endpoint(value: Callable[[], Any]) -> _Endpoint:
    async def read(request: Request) -> Response:
        return _json_response(value())

    return read


def _json_response(value: Any) -> Response:
    return JSONResponse(msgspec.to_builtins(value))
