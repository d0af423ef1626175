"""Checks from time to time whether the gateway's files differ from Git (DRF-1 to DRF-3).

Every interval by size and time, once in a while by content. Drift is counted; it is repaired only
where the policy says so, or once after a gateway's first boot, which may rewrite what was synced
before it (STA-8).
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
    """What differs on one gateway; `repairs` asks for a sync that puts it right."""

    def __init__(self, operations: GatewayOperations, clock: Clock) -> None:
        self._operations = operations
        self._clock = clock
        self._checked_at = clock.monotonic()
        self.drift: FileDrift | None = None
        self.repair_needed = False

    def due_seconds(self, policy: SyncPolicy) -> float | None:
        """When to look again; None where nobody wants to know."""
        if policy.drift_mode == "Off" or self._operations.applied_tree is None:
            return None
        return max(0.0, self._checked_at + policy.drift_seconds - self._clock.monotonic())

    def mark_synced(self) -> None:
        """A sync has just put everything right."""
        self._checked_at = self._clock.monotonic()
        self.drift = FileDrift()
        self.repair_needed = False

    async def check(self, policy: SyncPolicy, excludes: GlobSet) -> None:
        """Look now; by content if that is due too."""
        everything = self._unhashed_seconds() >= policy.full_hash_seconds
        drift = await self._find_drift(excludes, everything=everything)
        removes_extra = policy.delete_policy == "Mirror" and bool(drift.extra)
        is_ours = bool(drift.modified or drift.missing) or removes_extra
        self.repair_needed = policy.drift_mode == "Remediate" and is_ours

    async def check_after_boot(self, excludes: GlobSet) -> None:
        """Look at everything once, and put right what the first boot rewrote."""
        drift = await self._find_drift(excludes, everything=True)
        self.repair_needed = bool(drift.modified or drift.missing)

    def _unhashed_seconds(self) -> float:
        """How long ago all files were compared by content; a clock that was set back is due."""
        hashed = self._operations.state.hashed
        seconds = (self._clock.now() - hashed).total_seconds() if hashed is not None else -1.0
        return seconds if seconds >= 0 else float("inf")

    async def _find_drift(self, excludes: GlobSet, *, everything: bool) -> FileDrift:
        drift = await self._operations.find_drift(excludes, everything=everything)
        self._checked_at = self._clock.monotonic()
        if drift.has_drift and drift != self.drift:
            paths = (*drift.modified, *drift.missing, *drift.extra)[:_MAX_PATHS]
            _log.warning(
                "files differ from Git",
                modified=len(drift.modified),
                missing=len(drift.missing),
                extra=len(drift.extra),
                paths=paths,
            )
        self.drift = drift
        return drift
