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
from windlass.gateways.agent.decisions import StartFacts, StepFacts, VolumeContents
from windlass.gateways.agent.gateway_answers import GatewayState
from windlass.gateways.agent.inputs import AgentInputs
from windlass.gateways.agent.operations import GatewayOperations
from windlass.gateways.wire.metadata import GatewayEndpoint

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


async def read_start_facts(
    operations: GatewayOperations,
    turn_inputs: AgentInputs | None,
    facts: StepFacts,
    data: Path,
    *,
    has_tried: bool,
    waited_seconds: float,
) -> StartFacts:
    """The facts for `decisions.start_blocker`; asks the gateway whether it answers.

    `turn_inputs` are those of the last turn, None before the first; `facts` were made of them.
    """
    metadata = turn_inputs.metadata if turn_inputs is not None else None
    access = turn_inputs.access if turn_inputs is not None else GatewayEndpoint()
    state = await operations.scanner(access).state()
    desired = decisions.desired_version(facts)
    return StartFacts(
        gateway_answers=state not in (GatewayState.DOWN, GatewayState.UNRESPONSIVE),
        is_volume_ready=operations.is_tree_consistent,
        volume_contents=await _volume_contents(operations, data),
        at_target=desired is not None and facts.on_disk == desired and not facts.scan_pending,
        has_tried_sync=has_tried,
        is_paused=turn_inputs is not None and turn_inputs.is_paused,
        starts_anyway=metadata is not None and metadata.policy.initial_sync == "StartAnyway",
        waited_seconds=waited_seconds,
    )


async def _volume_contents(operations: GatewayOperations, data: Path) -> VolumeContents:
    if operations.applied_tree is not None:
        return "tree"
    return "files" if await asyncio.to_thread(_has_gateway_files, data) else "nothing"


def _has_gateway_files(data: Path) -> bool:
    """Whether the volume has files that a gateway would start with."""
    for folder in _DATA_FOLDERS:
        for path in (data / folder).rglob("*"):
            if path.is_file():
                return True
    return False
