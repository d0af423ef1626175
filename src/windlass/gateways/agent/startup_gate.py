"""The startup gate of the gateway: `/startupz` answers 200 when it may start (3.11).

`decisions.start_blocker` has the rules; the gate evaluates them after every turn of the loop, at
least once a second, until the gateway may start. An open gate never closes again.
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
    """The state of the gate, closed at first; `blocker` answers the startup probe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Monotonic time of the agent's start.
        self._started_at = clock.monotonic()
        # Why the gate is closed; None once it is open, and forever after.
        self._blocker: str | None = "the agent is starting"

    @property
    def is_open(self) -> bool:
        return self._blocker is None

    def blocker(self) -> str | None:
        """The reason why the gateway must not start yet; None once it may."""
        return self._blocker

    @property
    def waited_seconds(self) -> float:
        return self._clock.monotonic() - self._started_at

    def update(self, facts: StartFacts) -> None:
        """Open the gate if the facts allow it."""
        if self._blocker is None:
            return
        self._blocker = decisions.start_blocker(facts)
        if self._blocker is None:
            _log.info(
                "gateway may start", holds=facts.volume_contents, answers=facts.gateway_answers
            )

    async def run(
        self,
        read_facts: Callable[[], Awaitable[StartFacts]],
        wait_for_change: Callable[[float], Awaitable[None]],
    ) -> None:
        """Evaluate the rules until the gate is open; `wait_for_change` gets a limit in seconds."""
        while not self.is_open:
            try:
                self.update(await read_facts())
            except WindlassError as error:
                self._blocker = error.message
            await wait_for_change(_CHECK_SECONDS)


async def has_gateway_files(data: Path) -> bool:
    """Whether the volume has files that a gateway would start with."""
    return await asyncio.to_thread(_has_gateway_files, data)


def _has_gateway_files(data: Path) -> bool:
    for folder in _DATA_FOLDERS:
        for path in (data / folder).rglob("*"):
            if path.is_file():
                return True
    return False
