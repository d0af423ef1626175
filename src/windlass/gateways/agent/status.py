"""The gateway's status: a report of the agent's state (2.8), written to its status ConfigMap.

The ConfigMap is created by the controller and named in the metadata (SIG-2, amendment 1); an agent
may only write its own key, by server-side apply. Writes have a burst of two and then one in two
seconds; the last report wins, and an unchanged one is not written again. Progress is written only
if it lasts a second: a short sync takes one write, and its end waits for none. A ConfigMap that is
gone answers 403, because agents may not create any: that means wait. A new one gets the report
again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from windlass import __version__
from windlass.base.clock import Backoff, RateLimit
from windlass.gateways.agent.inputs import AgentIdentity
from windlass.gateways.agent.state import AgentState, AppliedTree
from windlass.gateways.agent.sync import PlannedSync
from windlass.gateways.tree.live_tree import FileDrift
from windlass.gateways.wire import agent_report
from windlass.gateways.wire.agent_report import AgentReport, AgentSyncStatus
from windlass.gateways.wire.metadata import StatusObject
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import ApiError, Forbidden
from windlass.objects.names import format_count
from windlass.objects.resources import CONFIG_MAPS


@dataclass(frozen=True, slots=True)
class GatewayCondition:
    """The gateway's status and reason; a `degraded` gateway runs on older files than desired."""

    status: AgentSyncStatus
    reason: str = ""
    message: str = ""
    degraded: bool = False
    plan_digest: str = ""


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """The content of a report beside the condition."""

    gateway: str  # name; empty falls back to the pod's
    state: AgentState  # durable state of the agent
    applied_tree: AppliedTree | None  # None before the first sync
    drift: FileDrift | None = None  # None before the first check
    routing_hash: str = ""  # of the metadata that was used; empty before any
    system_name: str = ""  # rendered by the profile; empty if it sets none


def encode_report(identity: AgentIdentity, condition: GatewayCondition, facts: StatusFacts) -> str:
    """The report as JSON, as it is written to the status ConfigMap."""
    return agent_report.encode(build_report(identity, condition, facts))


def build_report(
    identity: AgentIdentity, condition: GatewayCondition, facts: StatusFacts
) -> AgentReport:
    """The report; `synced_commit` is what the gateway has read, `applied_commit` is on the disk."""
    state, applied = facts.state, facts.applied_tree
    last = state.last_sync
    counts = (last.added, last.modified, last.deleted) if last is not None else (0, 0, 0)
    projects = applied.projects if applied is not None else ()
    return AgentReport(
        gateway=facts.gateway or identity.pod_name,
        pod_name=identity.pod_name,
        pod_uid=identity.pod_uid,
        agent_version=__version__,
        sync_status=condition.status,
        reason=condition.reason,
        synced_commit=state.read.commit if state.read is not None else "",
        profile_hash=state.read.profile_hash if state.read is not None else "",
        routing_hash=facts.routing_hash,
        error_message=condition.message,
        synced_ref=state.ref,
        applied_commit=applied.version.commit if applied is not None else "",
        plan_digest=condition.plan_digest or (last.plan_digest if last is not None else ""),
        tree_digest=applied.tree_digest if applied is not None else "",
        last_sync_time=last.time if last is not None else None,
        last_sync_duration=f"{last.seconds:.1f}s" if last is not None else "",
        files_changed=sum(counts),
        added=counts[0],
        modified=counts[1],
        deleted=counts[2],
        projects_synced=projects,
        projects_total=len(projects),
        last_scan_result=state.scan_result,
        scan_pending=bool(state.pending),
        system_name=facts.system_name,
        drift=_drift_counts(facts.drift),
        history=state.history,
        degraded=condition.degraded,
    )


def warning_text(warnings: Sequence[str], count: int) -> str:
    """The first of `count` warnings, with their number if it is not the only one; empty for 0.

    Equal for equal plans, so that a sync that changes nothing does not change the report.
    """
    if not warnings:
        return ""
    return warnings[0] if count == 1 else f"{count} warnings, first: {warnings[0]}"


def dry_run_condition(planned: PlannedSync) -> GatewayCondition:
    """The result of a dry run as a condition: guards, counts, the first paths, warnings."""
    plan = planned.plan
    counts = plan.counts()
    paths = [op.path for op in plan.ops if op.op in ("put", "delete")]
    shown = ", ".join(paths[:20])
    text = (
        f"dry run: {format_count(counts.get('put', 0), 'file')} to write, "
        f"{counts.get('delete', 0)} to delete: {shown}"
    )
    guards = (guard.message for guard in plan.guards)
    warnings = (*plan.warnings, *planned.warnings)
    listed = warning_text(warnings, len(warnings))
    text = "; ".join((*guards, text, *([listed] if listed else ())))
    return GatewayCondition("DryRun", "", text, plan_digest=plan.digest)


def _drift_counts(drift: FileDrift | None) -> agent_report.DriftCounts | None:
    if drift is None:
        return None
    return agent_report.DriftCounts(len(drift.modified), len(drift.missing), len(drift.extra))


WRITE_INTERVAL_SECONDS = 2.0
PROGRESS_DELAY_SECONDS = 1.0
_BURST = 2

_log: Any = structlog.get_logger(__name__)


class StatusWriter:
    """Holds the newest report and its target; `run` writes it."""

    def __init__(self, namespace: str, pod_name: str, pod_uid: str) -> None:
        self._namespace = namespace
        self._pod_name = pod_name
        self._manager = f"ignition-sync-agent.{pod_uid}"
        # The newest report; empty before the first.
        self._text = ""
        # ConfigMap of this pod; None until the metadata names it.
        self._target: StatusObject | None = None
        # Last successful write; None before one.
        self._written: tuple[StatusObject, str] | None = None
        # Set when report or target changed.
        self._changed = asyncio.Event()
        self._limit = RateLimit(WRITE_INTERVAL_SECONDS, _BURST)
        # Event loop time before which the report is not written, because progress may be short.
        self._not_before = 0.0

    def publish(self, text: str, *, is_progress: bool = False) -> None:
        """Set the report to write; `is_progress` if another one may follow soon."""
        if text == self._text:
            return
        self._text = text
        now = asyncio.get_running_loop().time()
        self._not_before = now + PROGRESS_DELAY_SECONDS if is_progress else 0.0
        self._changed.set()

    def set_target(self, target: StatusObject | None) -> None:
        """Set the ConfigMap to write to; None while the metadata names none."""
        if target != self._target:
            self._target = target
            self._changed.set()

    async def run(self, connection: Connection) -> None:
        """Write due reports until cancelled; faults delay the next write and never end this."""
        api = Api(connection)
        backoff = Backoff(WRITE_INTERVAL_SECONDS, 60.0)
        while True:
            self._changed.clear()
            due = self._due()
            wait_seconds = self._wait_seconds() if due is not None else None
            if due is None or wait_seconds:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_seconds):
                        await self._changed.wait()
                continue
            await asyncio.sleep(await self._write(api, *due, backoff))

    def _wait_seconds(self) -> float:
        now = asyncio.get_running_loop().time()
        return max(self._limit.wait_seconds(now), self._not_before - now, 0.0)

    def _due(self) -> tuple[StatusObject, str] | None:
        if self._target is None or not self._text:
            return None
        due = (self._target, self._text)
        return due if due != self._written else None

    async def _write(self, api: Api, target: StatusObject, text: str, backoff: Backoff) -> float:
        """Write the report; return the seconds to wait in addition to the rate limit."""
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": target.name, "namespace": self._namespace},
            "data": {self._pod_name: text},
        }
        self._limit.count(asyncio.get_running_loop().time())
        try:
            await api.apply(CONFIG_MAPS, body, field_manager=self._manager, force=True)
        except Forbidden as error:
            _log.info(
                "status ConfigMap not found; waiting for the controller",
                configmap=target.name,
                error=error.message,
            )
            return max(backoff.next_seconds(), WRITE_INTERVAL_SECONDS)
        except ApiError as error:
            _log.warning("status write failed, retrying", reason=error.reason, error=error.message)
            return max(backoff.next_seconds(), error.retry_after or 0.0, WRITE_INTERVAL_SECONDS)
        backoff.healthy()
        self._written = (target, text)
        return 0.0
