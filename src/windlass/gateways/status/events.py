"""Derives the Events of a reconcile from its findings and the stored status.

Each event carries the transition it is about. The recorder makes the Event's name from it,
so a reconcile that is repeated, or a second controller, records nothing twice.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from windlass.api.kinds.ignitionsync_status import DriftStatus, GatewayStatus, IgnitionSyncStatus
from windlass.gateways.status.conditions import ALL_SYNCED
from windlass.gateways.status.gateway_status import FleetStatus, GatewaySyncStatus
from windlass.gateways.status.summary import MAX_GATEWAY_ROWS
from windlass.gateways.wire.agent_report import DriftCounts
from windlass.gateways.wire.metadata import CommitSource
from windlass.git.format.refs import ResolvedRef
from windlass.objects.names import format_count
from windlass.runtime.outcome import READY, Weight

_ABBREV = 12
_MAX_NAMES = 5
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?(?=s$)")
_EVENT_REASONS: dict[str, Weight] = {
    "MassDeleteGuard": "Warning",
    "ScanUnauthorized": "Warning",
    "DriftRemediated": "Normal",
}
"""Reasons of single gateways that get an Event of their own."""


@dataclass(frozen=True, slots=True)
class SyncEvent:
    """One Event; `transition` identifies the change, so a repetition has the same name."""

    weight: Weight
    reason: str
    message: str
    transition: str


@dataclass(frozen=True, slots=True)
class StatusChange:
    """The stored status before a reconcile, and the findings of that reconcile."""

    resource_version: str  # of the stored object; makes transitions unique
    generation: int  # of the stored object
    status: IgnitionSyncStatus  # as stored, before this reconcile is reported
    previous_source: CommitSource | None  # published before; None for the first commit
    source: CommitSource | None  # in force now; None until a commit was resolved
    resolution: ResolvedRef | None  # of this reconcile; None if the remote was not polled
    fleet: FleetStatus | None  # None while the pods are not known
    is_paused: bool  # spec.paused now


def derive_events(change: StatusChange) -> tuple[SyncEvent, ...]:
    """The Events of one reconcile, in the order they are recorded."""
    return (
        *_ref_events(change),
        *_fleet_events(change),
        *_gateway_events(change),
        *_pause_events(change),
    )


def _ref_events(change: StatusChange) -> Iterator[SyncEvent]:
    before, now, resolution = change.previous_source, change.source, change.resolution
    if resolution is not None and resolution.ambiguous is not None:
        (tag, tagged), (branch, tip) = resolution.ambiguous
        text = f"{tag} ({tagged[:_ABBREV]}) is used; {branch} ({tip[:_ABBREV]}) has the same name"
        yield SyncEvent("Warning", "AmbiguousRef", text, f"ambiguous {change.generation} {tag}")
    if before is None or now is None or before.commit == now.commit:
        return
    same_ref = (before.ref, before.git_url) == (now.ref, now.git_url)
    moved = same_ref and resolution is not None and resolution.kind == "tag"
    text = f"{now.ref}: {before.commit[:_ABBREV]} -> {now.commit[:_ABBREV]}"
    yield SyncEvent(
        "Warning" if moved else "Normal",
        "TagMoved" if moved else "RefUpdated",
        text,
        f"{before.commit} {now.commit} {change.resource_version}",
    )


def _fleet_events(change: StatusChange) -> Iterator[SyncEvent]:
    fleet, status = change.fleet, change.status
    if fleet is None:
        return
    previous_total = status.gateway_counts.total if status.gateway_counts is not None else 0
    if previous_total != len(fleet.gateways):
        before = f", {previous_total} before" if previous_total else ""
        text = f"{format_count(len(fleet.gateways), 'gateway')} found{before}"
        yield SyncEvent("Normal", "GatewaysDiscovered", text, change.resource_version)
    known_missing = {
        row.pod_uid for row in status.discovered_gateways if row.sync_status == "MissingSidecar"
    }
    missing = [member for member in fleet.gateways if member.status == "MissingSidecar"]
    new_pods = [
        member.gateway.observed_pod
        for member in missing
        if member.gateway.observed_pod.uid not in known_missing
    ]
    if new_pods:
        names = ", ".join(pod.name for pod in new_pods[:_MAX_NAMES])
        more = f" and {len(new_pods) - _MAX_NAMES} more" if len(new_pods) > _MAX_NAMES else ""
        uids = " ".join(pod.uid for pod in new_pods)
        noun, verb = ("pod", "has") if len(new_pods) == 1 else ("pods", "have")
        text = f"{noun} {names}{more} {verb} no agent container"
        yield SyncEvent("Warning", "MissingSidecar", text, uids)
    all_synced = status.condition(ALL_SYNCED)
    if fleet.all_synced and fleet.expected and (all_synced is None or all_synced.status != "True"):
        text = f"{fleet.message}: {_work_summary(fleet)}"
        yield SyncEvent("Normal", "SyncCompleted", text, f"completed {change.resource_version}")


def _work_summary(fleet: FleetStatus) -> str:
    """Files, scan results and longest time of the last syncs of all counted gateways."""
    reports = [
        member.report
        for member in fleet.gateways
        if member.is_counted and member.report is not None
    ]
    files = sum(report.files_changed for report in reports)
    scans = sorted({report.last_scan_result for report in reports if report.last_scan_result})
    durations = [_SECONDS.match(report.last_sync_duration) for report in reports]
    longest = max(
        (float(duration[0]) for duration in durations if duration is not None), default=0.0
    )
    scan = f"scan {', '.join(scans[:_MAX_NAMES])}" if scans else "no scan"
    return f"{format_count(files, 'file')} changed, {scan}, longest sync {longest:g} s"


def _gateway_events(change: StatusChange) -> Iterator[SyncEvent]:
    """Events of single gateways; only of those with a row in the status to compare with."""
    before = {previous.pod_uid: previous for previous in change.status.discovered_gateways}
    shown = change.fleet.gateways[:MAX_GATEWAY_ROWS] if change.fleet is not None else ()
    for member in shown:
        previous = before.get(member.gateway.observed_pod.uid)
        yield from _reason_events(member, previous, change.resource_version)
        yield from _drift_events(member, previous, change.resource_version)


def _reason_events(
    member: GatewaySyncStatus, previous: GatewayStatus | None, version: str
) -> Iterator[SyncEvent]:
    weight = _EVENT_REASONS.get(member.reason)
    if weight is not None and (previous is None or previous.reason != member.reason):
        text = f"{member.gateway.name}: {member.message}" if member.message else member.gateway.name
        yield SyncEvent(weight, member.reason, text, f"{member.gateway.observed_pod.uid} {version}")


def _drift_events(
    member: GatewaySyncStatus, previous: GatewayStatus | None, version: str
) -> Iterator[SyncEvent]:
    """A Warning when files begin to differ, a Normal Event when none differs any more (DRF-1)."""
    drift = member.report.drift if member.report is not None else None
    if drift is None:
        return
    files_before, files_now = (
        _drift_count(previous.drift if previous is not None else None),
        _drift_count(drift),
    )
    transition = f"drift {member.gateway.observed_pod.uid} {version}"
    if files_now and not files_before:
        text = f"{member.gateway.name}: {drift.modified} modified, {drift.missing} missing, "
        text += f"{drift.extra} extra"
        yield SyncEvent("Warning", "GatewayFilesModified", text, transition)
    elif files_before and not files_now:
        text = f"{member.gateway.name}: files match Git again"
        yield SyncEvent("Normal", "GatewayFilesModified", text, transition)


def _drift_count(drift: DriftCounts | DriftStatus | None) -> int:
    return drift.modified + drift.missing + drift.extra if drift is not None else 0


def _pause_events(change: StatusChange) -> Iterator[SyncEvent]:
    ready = change.status.condition(READY)
    if not change.is_paused and ready is not None and ready.reason == "Paused":
        yield SyncEvent(
            "Normal", "Resumed", "syncing resumed", f"resumed {change.resource_version}"
        )
