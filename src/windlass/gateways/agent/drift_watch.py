"""Periodic drift check: do the gateway's files differ from Git? (DRF-1 to DRF-3)

Called by the loop. Every interval files are compared by size and time, at a longer interval by
content. Drift is counted; it is repaired only if the policy is Remediate, or once after a gateway's
first boot, which may rewrite what was synced before it (STA-8).
"""

from __future__ import annotations

from typing import Any

import structlog

from windlass.base.clock import Clock
from windlass.gateways.agent.operations import GatewayOperations
from windlass.gateways.tree.globs import GlobSet
from windlass.gateways.tree.live_tree import FileDrift
from windlass.gateways.wire.metadata import SyncPolicy

_MAX_PATHS = 5

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

    async def check(self, policy: SyncPolicy, excludes: GlobSet) -> None:
        """Check now, by content if that is due too."""
        everything = self._unhashed_seconds() >= policy.full_hash_seconds
        drift = await self._find_drift(excludes, everything=everything)
        removes_extra = policy.delete_policy == "Mirror" and bool(drift.extra)
        is_repairable = bool(drift.modified or drift.missing) or removes_extra
        self.repair_needed = policy.drift_mode == "Remediate" and is_repairable

    async def check_after_boot(self, excludes: GlobSet) -> None:
        """Compare all files by content once; what the first boot rewrote needs a repair."""
        drift = await self._find_drift(excludes, everything=True)
        self.repair_needed = bool(drift.modified or drift.missing)

    def _unhashed_seconds(self) -> float:
        """Seconds since all files were compared by content; infinite if the clock was set back."""
        hashed = self._operations.state.hashed
        seconds = (self._clock.now() - hashed).total_seconds() if hashed is not None else -1.0
        return seconds if seconds >= 0 else float("inf")

    async def _find_drift(self, excludes: GlobSet, *, everything: bool) -> FileDrift:
        drift = await self._operations.find_drift(excludes, everything=everything)
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
