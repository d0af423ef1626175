"""Derives the Events of a reconcile: what changed since the stored status.

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
from windlass.runtime.outcome import READY, Weight

_ABBREV = 12
_MAX_NAMES = 5
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?(?=s$)")
_EVENT_REASONS: dict[str, Weight] = {
    "MassDeleteGuard": "Warning",
    "ScanUnauthorized": "Warning",
    "DriftRemediated": "Normal",
}
"""Reasons of single gateways that are worth an event of their own."""


@dataclass(frozen=True, slots=True)
class SyncEvent:
    """One event; `transition` says which one time it is about."""

    weight: Weight
    reason: str
    message: str
    transition: str


@dataclass(frozen=True, slots=True)
class StatusChange:
    """What was stored before a pass, and what the pass found."""

    resource_version: str
    generation: int
    status: IgnitionSyncStatus
    previous_source: CommitSource | None
    source: CommitSource | None
    resolution: ResolvedRef | None
    fleet: FleetStatus | None
    is_paused: bool


def derive_events(moment: StatusChange) -> tuple[SyncEvent, ...]:
    """The events of one pass."""
    return (
        *_ref_events(moment),
        *_fleet_events(moment),
        *_gateway_events(moment),
        *_pause_events(moment),
    )


def _ref_events(moment: StatusChange) -> Iterator[SyncEvent]:
    before, now, found = moment.previous_source, moment.source, moment.resolution
    if found is not None and found.ambiguous is not None:
        (tag, tagged), (branch, tip) = found.ambiguous
        text = f"{tag} ({tagged[:_ABBREV]}) is used; {branch} ({tip[:_ABBREV]}) has the same name"
        yield SyncEvent("Warning", "AmbiguousRef", text, f"ambiguous {moment.generation} {tag}")
    if before is None or now is None or before.commit == now.commit:
        return
    same_ref = (before.ref, before.git_url) == (now.ref, now.git_url)
    moved = same_ref and found is not None and found.kind == "tag"
    text = f"{now.ref}: {before.commit[:_ABBREV]} -> {now.commit[:_ABBREV]}"
    yield SyncEvent(
        "Warning" if moved else "Normal",
        "TagMoved" if moved else "RefUpdated",
        text,
        f"{before.commit} {now.commit} {moment.resource_version}",
    )


def _fleet_events(moment: StatusChange) -> Iterator[SyncEvent]:
    tally, status = moment.fleet, moment.status
    if tally is None:
        return
    was = status.gateway_counts.total if status.gateway_counts is not None else 0
    if was != len(tally.gateways):
        text = f"{len(tally.gateways)} gateways (was {was})"
        yield SyncEvent("Normal", "GatewaysDiscovered", text, moment.resource_version)
    known = {
        row.pod_uid for row in status.discovered_gateways if row.sync_status == "MissingSidecar"
    }
    missing = [one for one in tally.gateways if one.status == "MissingSidecar"]
    fresh = [
        one.gateway.observed_pod for one in missing if one.gateway.observed_pod.uid not in known
    ]
    if fresh:
        names = ", ".join(pod.name for pod in fresh[:_MAX_NAMES])
        more = f" and {len(fresh) - _MAX_NAMES} more" if len(fresh) > _MAX_NAMES else ""
        uids = " ".join(pod.uid for pod in fresh)
        yield SyncEvent("Warning", "MissingSidecar", f"without an agent: {names}{more}", uids)
    row = status.condition(ALL_SYNCED)
    if tally.all_synced and tally.expected and (row is None or row.status != "True"):
        text = f"{tally.message}: {_work_summary(tally)}"
        yield SyncEvent("Normal", "SyncCompleted", text, f"completed {moment.resource_version}")


def _work_summary(tally: FleetStatus) -> str:
    """What the last syncs of all gateways came to together."""
    said = [one.report for one in tally.gateways if one.is_counted and one.report is not None]
    files = sum(report.files_changed for report in said)
    scans = sorted({report.last_scan_result for report in said if report.last_scan_result})
    times = [_SECONDS.match(report.last_sync_duration) for report in said]
    longest = max((float(found[0]) for found in times if found is not None), default=0.0)
    shown = ", ".join(scans[:_MAX_NAMES]) or "none"
    return f"{files} files, scan {shown}, at most {longest:g} s"


def _gateway_events(moment: StatusChange) -> Iterator[SyncEvent]:
    """What came over single gateways; only of those that the status has room for."""
    before = {row.pod_uid: row for row in moment.status.discovered_gateways}
    shown = moment.fleet.gateways[:MAX_GATEWAY_ROWS] if moment.fleet is not None else ()
    for one in shown:
        row = before.get(one.gateway.observed_pod.uid)
        yield from _reason_events(one, row, moment.resource_version)
        yield from _drift_events(one, row, moment.resource_version)


def _reason_events(
    one: GatewaySyncStatus, row: GatewayStatus | None, version: str
) -> Iterator[SyncEvent]:
    weight = _EVENT_REASONS.get(one.reason)
    if weight is not None and (row is None or row.reason != one.reason):
        text = f"{one.gateway.name}: {one.message}" if one.message else one.gateway.name
        yield SyncEvent(weight, one.reason, text, f"{one.gateway.observed_pod.uid} {version}")


def _drift_events(
    one: GatewaySyncStatus, row: GatewayStatus | None, version: str
) -> Iterator[SyncEvent]:
    """DRF-1: a warning when files begin to differ, and a word when none does any more."""
    now = one.report.drift if one.report is not None else None
    if now is None:
        return
    was, found = _drift_count(row.drift if row is not None else None), _drift_count(now)
    transition = f"drift {one.gateway.observed_pod.uid} {version}"
    if found and not was:
        text = f"{one.gateway.name}: {now.modified} modified, {now.missing} missing, "
        text += f"{now.extra} extra"
        yield SyncEvent("Warning", "GatewayFilesModified", text, transition)
    elif was and not found:
        text = f"{one.gateway.name}: no file differs from Git any more"
        yield SyncEvent("Normal", "GatewayFilesModified", text, transition)


def _drift_count(drift: DriftCounts | DriftStatus | None) -> int:
    return drift.modified + drift.missing + drift.extra if drift is not None else 0


def _pause_events(moment: StatusChange) -> Iterator[SyncEvent]:
    ready = moment.status.condition(READY)
    if not moment.is_paused and ready is not None and ready.reason == "Paused":
        yield SyncEvent(
            "Normal", "Resumed", "gateways are synced again", f"resumed {moment.resource_version}"
        )
