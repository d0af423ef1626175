"""What an agent says about its gateway, put together from what it knows (2.8)."""

from __future__ import annotations

from dataclasses import dataclass

from windlass import __version__
from windlass.gateways.agent.holding import Holding
from windlass.gateways.agent.memory import Memory
from windlass.gateways.agent.surroundings import Identity
from windlass.gateways.decide import status_report
from windlass.gateways.decide.drift import Drift
from windlass.gateways.decide.status_report import Report, SyncStatus


@dataclass(frozen=True, slots=True)
class Condition:
    """How the gateway is at the moment; a `degraded` one runs on older files than wanted."""

    status: SyncStatus
    reason: str = ""
    message: str = ""
    degraded: bool = False
    plan_digest: str = ""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known beside the condition."""

    gateway: str
    memory: Memory
    holding: Holding | None
    drift: Drift | None = None
    routing_hash: str = ""
    system_name: str = ""


def text(identity: Identity, condition: Condition, known: Knowledge) -> str:
    """The report as it is written into the status object."""
    return status_report.encode(report(identity, condition, known))


def report(identity: Identity, condition: Condition, known: Knowledge) -> Report:
    """Everything that is said; `syncedCommit` is what the gateway has really read."""
    memory, holding = known.memory, known.holding
    last = memory.last_sync
    changed = (last.added, last.modified, last.deleted) if last is not None else (0, 0, 0)
    projects = holding.projects if holding is not None else ()
    return Report(
        gateway=known.gateway or identity.pod_name,
        pod_name=identity.pod_name,
        pod_uid=identity.pod_uid,
        agent_version=__version__,
        sync_status=condition.status,
        reason=condition.reason,
        synced_commit=memory.read.commit if memory.read is not None else "",
        profile_hash=memory.read.profile_hash if memory.read is not None else "",
        routing_hash=known.routing_hash,
        error_message=condition.message,
        synced_ref=memory.ref,
        applied_commit=holding.version.commit if holding is not None else "",
        plan_digest=condition.plan_digest or (last.plan_digest if last is not None else ""),
        tree_digest=holding.tree_digest if holding is not None else "",
        last_sync_time=last.time if last is not None else None,
        last_sync_duration=f"{last.seconds:.1f}s" if last is not None else "",
        files_changed=sum(changed),
        added=changed[0],
        modified=changed[1],
        deleted=changed[2],
        projects_synced=projects,
        projects_total=len(projects),
        last_scan_result=memory.scan_result,
        scan_pending=bool(memory.pending),
        system_name=known.system_name,
        drift=_drift(known.drift),
        history=memory.history,
        degraded=condition.degraded,
    )


def _drift(found: Drift | None) -> status_report.Drift | None:
    if found is None:
        return None
    return status_report.Drift(len(found.modified), len(found.missing), len(found.extra))
