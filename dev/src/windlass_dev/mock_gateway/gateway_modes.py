"""Failure modes of the mock gateway, switchable while it runs.

| Mode | Behavior |
|---|---|
| ok | no failure |
| starting | 503 everywhere; the data is read again when the mode ends, as at a start |
| commissioning | StatusPing reports it, the API answers 403; security properties were rewritten |
| 401, 403, 404, 500 | the API answers just that |
| slow | the API answers after `seconds` |
| never-completes | scans are accepted and stay active until the mode ends |
| no-GET | 405 for a GET of a scan's status |
| frozen | nothing answers until the mode ends, as in a long garbage collection |
| refused | no process listens; the data is read again when the mode ends |

`requests` ends the mode after that many affected requests, `method` restricts it to
requests of that method; both only for 401, 403, 404, 500, slow and no-GET.

Commissioning (the first boot of a gateway) rewrites the security properties, which removes
permissions of API tokens that came with the files; their resource.json gets a new
modification time.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from windlass.base import files
from windlass.base.errors import WindlassError

MODES = (
    "ok",
    "starting",
    "commissioning",
    "401",
    "403",
    "404",
    "500",
    "slow",
    "never-completes",
    "no-GET",
    "frozen",
    "refused",
)
API_PREFIX = "/data/"
_SCAN_PREFIX = "/data/api/v1/scan/"
_STATUSES = {
    "401": (401, "Unauthorized"),
    "403": (403, "Forbidden"),
    "404": (404, "Not Found"),
    "500": (500, "Internal Server Error"),
    "commissioning": (403, "the gateway is waiting for commissioning"),
}
_LOOK_SECONDS = 0.05
_COUNTED_MODES = frozenset({"401", "403", "404", "500", "slow", "no-GET"})


class GatewayMode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A failure mode, as it is sent to the control port."""

    mode: str
    """One of `MODES`."""
    requests: int | None = None
    """How many more requests it affects; None until the next switch."""
    method: str | None = None
    """The affected HTTP method; None for all."""
    seconds: float = 5.0
    """The delay of mode `slow`."""

    def check(self) -> None:
        """Raise `ModeInvalid` for an unknown mode or values that do not fit it."""
        if self.mode not in MODES:
            raise _invalid_mode(
                f"unsupported mode {self.mode[:40]!r}; supported: {', '.join(MODES)}"
            )
        if self.mode not in _COUNTED_MODES and (
            self.requests is not None or self.method is not None
        ):
            raise _invalid_mode(
                f"mode {self.mode} lasts until it is changed; leave out requests and method"
            )
        if (self.requests is not None and self.requests < 1) or not 0 <= self.seconds <= 3600:
            raise _invalid_mode("requests must be at least 1, seconds between 0 and 3600")

    @property
    def is_down(self) -> bool:
        """Whether leaving this mode restarts the gateway, which then reads its data again."""
        return self.mode in {"starting", "refused"}


@dataclass(frozen=True, slots=True)
class ModeResponse:
    """A response of the mode instead of the gateway's own."""

    status: int
    text: str


class ModeSwitch:
    """Holds the mode in force."""

    def __init__(self) -> None:
        self.current = GatewayMode("ok")

    async def answer(self, method: str, path: str) -> ModeResponse | None:
        """The mode's response to a request; None if the gateway responds itself."""
        mode = self.current
        if not _applies_to(mode, method, path):
            return None
        self._count(mode)
        if mode.mode == "slow":
            await asyncio.sleep(mode.seconds)
            return None
        if mode.mode == "frozen":
            await self._await_end(mode)
            return None
        return _mode_response(mode)

    async def _await_end(self, mode: GatewayMode) -> None:
        while self.current is mode:  # noqa: ASYNC110 - a mode has no event for its end
            await asyncio.sleep(_LOOK_SECONDS)

    def _count(self, mode: GatewayMode) -> None:
        if mode.requests is None:
            return
        remaining = mode.requests - 1
        self.current = (
            msgspec.structs.replace(mode, requests=remaining) if remaining else GatewayMode("ok")
        )


def _applies_to(mode: GatewayMode, method: str, path: str) -> bool:
    if mode.method is not None and method != mode.method:
        return False
    if mode.mode in {"starting", "frozen"}:
        return True
    if mode.mode == "no-GET":
        return method == "GET" and path.startswith(_SCAN_PREFIX)
    return (mode.mode == "slow" or mode.mode in _STATUSES) and path.startswith(API_PREFIX)


def _mode_response(mode: GatewayMode) -> ModeResponse:
    if mode.mode == "starting":
        return ModeResponse(503, "the gateway is starting")
    if mode.mode == "no-GET":
        return ModeResponse(405, "Method Not Allowed")
    return ModeResponse(*_STATUSES[mode.mode])


def _invalid_mode(message: str) -> WindlassError:
    return WindlassError("ModeInvalid", message)


_RESOURCES = "config/resources"
_SECURITY_PROPERTIES = "ignition/security-properties"
_RESET_PERMISSIONS = {
    "gatewayReadPermissions": {"type": "AllOf", "securityLevels": []},
    "gatewayWritePermissions": {"type": "AllOf", "securityLevels": []},
}


def reset_security_properties(data: Path) -> list[str]:
    """Reset the security properties of every collection; create those of core if there are none.

    Returns the data-relative paths that were written.
    """
    configs = sorted((data / _RESOURCES).glob(f"*/{_SECURITY_PROPERTIES}/config.json"))
    if not configs:
        configs = [data / _RESOURCES / "core" / _SECURITY_PROPERTIES / "config.json"]
        configs[0].parent.mkdir(parents=True, exist_ok=True)
    for path in configs:
        files.write_atomically(path, _encode(_RESET_PERMISSIONS))
        files.write_atomically(path.with_name("resource.json"), _encode(_resource_json(path)))
    return [path.relative_to(data).as_posix() for path in configs]


def _resource_json(config: Path) -> dict[str, Any]:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {
        "scope": "G",
        "version": 1,
        "files": [config.name],
        "attributes": {"lastModification": {"actor": "system", "timestamp": stamp}},
    }


def _encode(value: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
