"""How the mock gateway behaves, switchable while it runs.

| Mode | Behaviour |
|---|---|
| ok | all is well |
| starting | 503 everywhere; the data is read again when the mode ends, as at a start |
| commissioning | StatusPing says so, the API answers 403; security properties were rewritten |
| 401, 403, 404, 500 | the API answers just that |
| slow | the API answers after `seconds` |
| never-completes | scans are accepted and stay active until the mode ends |
| no-GET | 405 for a GET of a scan's status |
| refused | nothing listens; the data is read again when the mode ends |

`requests` ends the mode after so many requests it has answered, `method` restricts it
to requests of that method; both only for 401, 403, 404, 500, slow and no-GET.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

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
    "refused",
)
API = "/data/"
_SCAN = "/data/api/v1/scan/"
_STATUSES = {
    "401": (401, "Unauthorized"),
    "403": (403, "Forbidden"),
    "404": (404, "Not Found"),
    "500": (500, "Internal Server Error"),
    "commissioning": (403, "the gateway waits for commissioning"),
}
_COUNTED = frozenset({"401", "403", "404", "500", "slow", "no-GET"})


class Mode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A behaviour, and for how long and for what it lasts."""

    mode: str
    requests: int | None = None
    method: str | None = None
    seconds: float = 5.0

    def check(self) -> None:
        """Refuse a mode that could not mean anything."""
        if self.mode not in MODES:
            raise _refused(f"{self.mode[:40]!r} is not one of {', '.join(MODES)}")
        if self.mode not in _COUNTED and (self.requests is not None or self.method is not None):
            raise _refused(f"mode {self.mode} lasts until the next; leave requests and method out")
        if (self.requests is not None and self.requests < 1) or not 0 <= self.seconds <= 3600:
            raise _refused("requests must be 1 or more, seconds 0 to 3600")

    @property
    def is_down(self) -> bool:
        """Whether leaving this mode is a start of the gateway."""
        return self.mode in {"starting", "refused"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that a mode gives instead of the gateway's own."""

    status: int
    text: str


class Modes:
    """The mode in force."""

    def __init__(self) -> None:
        self.current = Mode("ok")

    async def answer(self, method: str, path: str) -> Refusal | None:
        """What the mode makes of a request; None lets the gateway answer."""
        mode = self.current
        if not _concerns(mode, method, path):
            return None
        self._count(mode)
        if mode.mode == "slow":
            await asyncio.sleep(mode.seconds)
            return None
        return _refusal(mode)

    def _count(self, mode: Mode) -> None:
        if mode.requests is None:
            return
        left = mode.requests - 1
        self.current = msgspec.structs.replace(mode, requests=left) if left else Mode("ok")


def _concerns(mode: Mode, method: str, path: str) -> bool:
    if mode.method is not None and method != mode.method:
        return False
    if mode.mode == "starting":
        return True
    if mode.mode == "no-GET":
        return method == "GET" and path.startswith(_SCAN)
    return (mode.mode == "slow" or mode.mode in _STATUSES) and path.startswith(API)


def _refusal(mode: Mode) -> Refusal:
    if mode.mode == "starting":
        return Refusal(503, "the gateway is starting")
    if mode.mode == "no-GET":
        return Refusal(405, "Method Not Allowed")
    return Refusal(*_STATUSES[mode.mode])


def _refused(message: str) -> WindlassError:
    return WindlassError("ModeInvalid", message)
