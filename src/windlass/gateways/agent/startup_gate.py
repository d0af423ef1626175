"""The startup gate of the gateway: `/startupz` answers 200 when it may start (3.11).

`decisions.start_blocker` holds the rules; this evaluates them once a second until the gateway may
start, and never closes the gate again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import structlog

from windlass.base.clock import Clock
from windlass.base.errors import WindlassError
from windlass.gateways.agent import decisions
from windlass.gateways.agent.decisions import StartFacts

_CHECK_SECONDS = 1.0
_DATA_FOLDERS = ("projects", "config/resources")

_log: Any = structlog.get_logger(__name__)


class StartupGate:
    """Closed at first; `why_not` answers the startup probe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_at = clock.monotonic()
        self._blocker: str | None = "the agent starts"

    @property
    def is_open(self) -> bool:
        return self._blocker is None

    def blocker(self) -> str | None:
        """Why the gateway has to wait; None once it may start."""
        return self._blocker

    @property
    def waited_seconds(self) -> float:
        return self._clock.monotonic() - self._started_at

    def update(self, start: StartFacts) -> None:
        """Open the gate if it is time."""
        if self._blocker is None:
            return
        self._blocker = decisions.start_blocker(start)
        if self._blocker is None:
            _log.info(
                "gateway may start", holds=start.volume_contents, answers=start.gateway_answers
            )

    async def run(
        self,
        state: Callable[[], Awaitable[StartFacts]],
        changed: Callable[[float], Awaitable[None]],
    ) -> None:
        """Look until the gate is open; `changed` waits for news, at most so many seconds."""
        while not self.is_open:
            try:
                self.update(await state())
            except WindlassError as error:
                self._blocker = error.message
            await changed(_CHECK_SECONDS)


async def has_gateway_files(data: Path) -> bool:
    """Whether the volume has files that a gateway would start with."""
    return await asyncio.to_thread(_has_gateway_files, data)


def _has_gateway_files(data: Path) -> bool:
    for folder in _DATA_FOLDERS:
        for path in (data / folder).rglob("*"):
            if path.is_file():
                return True
    return False
