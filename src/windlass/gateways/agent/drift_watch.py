"""Periodic drift check: do the gateway's files differ from Git? (DRF-1 to DRF-3)

Called by the loop. Every interval files are compared by size and time, at a longer interval by
content. Drift is counted; it is repaired only if the policy is Remediate, or once after a gateway's
first boot, which may rewrite what was synced before it (STA-8).
"""

from __future__ import annotations

import math
from typing import Any

import structlog

from windlass.base.clock import Clock
from windlass.gateways.agent.gateway_answers import GatewayState
from windlass.gateways.agent.inputs import AgentInputs
from windlass.gateways.agent.operations import GatewayOperations
from windlass.gateways.tree.globs import GlobSet
from windlass.gateways.tree.live_tree import FileDrift
from windlass.gateways.wire.metadata import SyncPolicy

_MAX_PATHS = 5
# How often a gateway is asked whether its first boot is over.
_BOOT_SECONDS = 5.0

_log: Any = structlog.get_logger(__name__)


class DriftWatch:
    """Drift of one gateway; `repair_needed` requests a sync that repairs it."""

    def __init__(self, operations: GatewayOperations, clock: Clock) -> None:
        self._operations = operations
        self._clock = clock
        # Monotonic time of the last check or sync.
        self._checked_at = clock.monotonic()
        # Result of the last check, empty after a sync; None before both.
        self.drift: FileDrift | None = None
        # The next sync has to restore files although no commit changed; cleared by that sync.
        self.repair_needed = False

    def due_seconds(self, policy: SyncPolicy) -> float | None:
        """Seconds until the next check; None if drift detection is off or no tree is applied."""
        if policy.drift_mode == "Off" or self._operations.applied_tree is None:
            return None
        return max(0.0, self._checked_at + policy.drift_seconds - self._clock.monotonic())

    def mark_synced(self) -> None:
        """Record that a sync or rollback has just written the tree: there is no drift."""
        self._checked_at = self._clock.monotonic()
        self.drift = FileDrift()
        self.repair_needed = False

    async def run_due_checks(self, turn_inputs: AgentInputs, *, is_gateway_started: bool) -> float:
        """Run the check that is due; return the seconds until the next one, 0 after a check."""
        metadata = turn_inputs.metadata
        if metadata is None or turn_inputs.selection is None or turn_inputs.is_paused:
            return math.inf
        boot_seconds = math.inf
        if self._operations.state.boots:
            if is_gateway_started and await self._check_after_boot(turn_inputs):
                return 0.0
            boot_seconds = _BOOT_SECONDS
        due = self.due_seconds(metadata.policy)
        if due == 0.0:
            await self.check(metadata.policy, turn_inputs.excludes, turn_inputs.api_token)
            return 0.0
        return min(boot_seconds, due if due is not None else math.inf)

    async def check(self, policy: SyncPolicy, excludes: GlobSet, api_token: str = "") -> None:
        """Check now, by content if that is due too."""
        everything = self._unhashed_seconds() >= policy.full_hash_seconds
        drift = await self._find_drift(excludes, api_token, everything=everything)
        removes_extra = policy.delete_policy == "Mirror" and bool(drift.extra)
        is_repairable = bool(drift.modified or drift.missing) or removes_extra
        self.repair_needed = policy.drift_mode == "Remediate" and is_repairable

    async def _check_after_boot(self, turn_inputs: AgentInputs) -> bool:
        """Once the gateway runs, compare all files by content; its first boot may rewrite some."""
        if await self._operations.scanner(turn_inputs.access).state() is not GatewayState.RUNNING:
            return False
        drift = await self._find_drift(turn_inputs.excludes, turn_inputs.api_token, everything=True)
        self.repair_needed = bool(drift.modified or drift.missing)
        await self._operations.update_state(boots=False)
        return True

    def _unhashed_seconds(self) -> float:
        """Seconds since all files were compared by content; infinite if the clock was set back."""
        hashed = self._operations.state.hashed
        seconds = (self._clock.now() - hashed).total_seconds() if hashed is not None else -1.0
        return seconds if seconds >= 0 else float("inf")

    async def _find_drift(
        self, excludes: GlobSet, api_token: str, *, everything: bool
    ) -> FileDrift:
        drift = await self._operations.find_drift(
            excludes, everything=everything, api_token=api_token
        )
        self._checked_at = self._clock.monotonic()
        # The same drift at the next check is not logged again.
        if drift.has_drift and drift != self.drift:
            paths = (*drift.modified, *drift.missing, *drift.extra)[:_MAX_PATHS]
            _log.warning(
                "drift detected",
                modified=len(drift.modified),
                missing=len(drift.missing),
                extra=len(drift.extra),
                paths=paths,
            )
        self.drift = drift
        return drift
