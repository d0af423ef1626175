"""The HTTP API of the mock gateway: scans and the few pages that windlass reads.

Every request first meets the mode, which may respond instead of the gateway; requests
under `/data/` then need the token. Scan requests are counted before both.
"""

from __future__ import annotations

import hmac
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from windlass_dev.mock_gateway.data_reader import SCAN_KINDS
from windlass_dev.mock_gateway.gateway_modes import API_PREFIX, ModeSwitch
from windlass_dev.mock_gateway.mock_scans import MockScans

_HEADER = "x-ignition-api-token"
_HTTP_METHODS = ["GET", "POST", "PUT", "DELETE"]

_Handler: TypeAlias = Callable[[Request], Response]


@dataclass(frozen=True, slots=True)
class MockGatewayIdentity:
    """Name and versions that the gateway reports of itself."""

    name: str = "desk"
    version: str = "8.3.4"
    edition: str = "standard"
    deployment_mode: str = ""


@dataclass(slots=True)
class MockGatewayApi:
    """The endpoints of the gateway."""

    scans: MockScans
    """What is loaded; scan requests go there."""
    modes: ModeSwitch
    """The failure mode in force."""
    identity: MockGatewayIdentity
    """What the gateway reports of itself."""
    token: str = field(default="", repr=False)
    """The accepted API token, `name:secret`; empty disables authentication."""
    posts: Counter[str] = field(default_factory=Counter)
    """Scan requests by kind, whatever the response."""
    gets: Counter[str] = field(default_factory=Counter)
    """Requests for the status of a scan by kind, whatever the response."""
    _started: float = field(default_factory=time.monotonic)
    """Monotonic time of the start, for the uptime."""

    def app(self) -> Starlette:
        """The ASGI application."""
        pages: dict[str, _Handler] = {
            "/data/api/v1/gateway-info": self._info,
            "/data/api/v1/projects/names": self._projects,
            "/data/api/v1/designers": lambda _: _list_response([]),
            "/data/api/v1/redundancy": self._redundancy,
            "/system/gwinfo": self._gwinfo,
            "/StatusPing": self._ping,
        }
        routes = [
            Route(
                "/data/api/v1/scan/{kind}", self._with_checks(self._scan), methods=["GET", "POST"]
            )
        ]
        routes += [
            Route(path, self._with_checks(page), methods=["GET"]) for path, page in pages.items()
        ]
        routes.append(Route("/{path:path}", self._with_checks(_not_found), methods=_HTTP_METHODS))
        return Starlette(routes=routes)

    def _with_checks(self, page: _Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            path = request.url.path
            self._count(request)
            refusal = await self.modes.answer(request.method, path)
            if refusal is not None:
                return PlainTextResponse(refusal.text, refusal.status)
            if path.startswith(API_PREFIX) and not self._has_valid_token(request):
                return PlainTextResponse("Unauthorized", 401)
            return page(request)

        return answer

    def _count(self, request: Request) -> None:
        kind = request.path_params.get("kind")
        if kind in SCAN_KINDS:
            {"POST": self.posts, "GET": self.gets}.get(request.method, Counter())[kind] += 1

    def _has_valid_token(self, request: Request) -> bool:
        given = request.headers.get(_HEADER, "")
        return not self.token or hmac.compare_digest(given.encode(), self.token.encode())

    def _scan(self, request: Request) -> Response:
        kind = request.path_params["kind"]
        if kind not in SCAN_KINDS:
            return _not_found(request)
        if request.method == "POST":
            self.scans.request(kind)
        return JSONResponse(self.scans.status(kind))

    def _info(self, _: Request) -> Response:
        return JSONResponse(
            {
                "name": self.identity.name,
                "ignitionVersion": self.identity.version,
                "edition": self.identity.edition,
                "deploymentMode": self.identity.deployment_mode,
                "redundancyRole": "Independent",
            }
        )

    def _projects(self, _: Request) -> Response:
        projects = self.scans.projects.items()
        return _list_response([{"name": name, "enabled": enabled} for name, enabled in projects])

    def _redundancy(self, _: Request) -> Response:
        return JSONResponse(
            {
                "role": "Independent",
                "activityLevel": "Active",
                "projectState": "Good",
                "peerConnected": False,
                "syncPending": False,
                "lastSyncTimestamp": -1,
                "uptime": self._uptime_ms(),
            }
        )

    def _gwinfo(self, _: Request) -> Response:
        fields = {
            "ContextStatus": "RUNNING",
            "PlatformName": self.identity.name,
            "Version": self.identity.version,
            "RedundancyStatus": "Independent",
            "RedundantState": "Good",
            "RedundantNodeActiveStatus": "Active",
            "UptimeMs": str(self._uptime_ms()),
        }
        return PlainTextResponse("".join(f"{name}={value};" for name, value in fields.items()))

    def _ping(self, _: Request) -> Response:
        details = {"details": "COMMISSIONING"} if self._is_commissioning() else {}
        return JSONResponse({"state": "RUNNING", **details})

    def _is_commissioning(self) -> bool:
        return self.modes.current.mode == "commissioning"

    def _uptime_ms(self) -> int:
        return int((time.monotonic() - self._started) * 1000)


def _list_response(items: list[Any]) -> Response:
    return JSONResponse({"items": items, "metadata": {"total": len(items)}})


def _not_found(_: Request) -> Response:
    return PlainTextResponse("Not Found", 404)
