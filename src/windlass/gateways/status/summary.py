"""The gateways as users read them: rows of the CR's status, lines of the summary ConfigMap.

Both repeat what the pods and the agents' reports contain and add nothing, so equal statuses
give equal bytes. The summary ConfigMap also keeps when all gateways had a commit and routing
for the first time (`FirstSynced`, the CR's `lastSyncTime`): it must survive a restart, or
every start would write a new one.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from windlass.api.kinds.ignitionsync_status import DriftStatus, GatewayStatus, PastSyncStatus
from windlass.base.redaction import visible
from windlass.gateways.status.gateway_status import FleetStatus, GatewaySyncStatus
from windlass.gateways.wire.agent_report import AgentReport, format_time
from windlass.objects.names import Object

MAX_GATEWAY_ROWS = 256
_MESSAGE_CHARS = 512


def status_rows(fleet: FleetStatus) -> list[Object]:
    """`status.discoveredGateways`: the first 256 by name."""
    return [
        msgspec.to_builtins(_status_row(member)) for member in fleet.gateways[:MAX_GATEWAY_ROWS]
    ]


def summary_lines(fleet: FleetStatus) -> dict[str, str]:
    """The data of the summary ConfigMap: pod name -> line of JSON."""
    return {member.gateway.observed_pod.name: _summary_line(member) for member in fleet.gateways}


def _status_row(member: GatewaySyncStatus) -> GatewayStatus:
    report, pod = member.report, member.gateway.observed_pod.pod
    base = GatewayStatus(
        name=member.gateway.name[:253],
        namespace=pod.namespace,
        pod_name=pod.name,
        pod_uid=member.gateway.observed_pod.uid,
        service_path=(pod.annotation("service-path") or "")[:512],
        profile=member.profile,
        sync_status=member.status,
        reason=member.reason,
        message=visible(member.message)[:_MESSAGE_CHARS],
    )
    return base if report is None else _with_report(base, report)


def _with_report(base: GatewayStatus, report: AgentReport) -> GatewayStatus:
    drift = report.drift
    return msgspec.structs.replace(
        base,
        synced_commit=report.synced_commit,
        synced_ref=report.synced_ref,
        applied_commit=report.applied_commit,
        profile_hash=report.profile_hash,
        last_sync_time=report.last_sync_time,
        last_sync_duration=report.last_sync_duration,
        last_scan_result=report.last_scan_result,
        files_changed=report.files_changed,
        projects_synced=report.projects_synced,
        system_name=report.system_name,
        drift=DriftStatus(modified=drift.modified, missing=drift.missing, extra=drift.extra)
        if drift is not None
        else None,
        degraded=report.degraded or None,
        agent_version=report.agent_version,
        sync_history=tuple(
            PastSyncStatus(
                timestamp=past.timestamp,
                commit=past.commit,
                result=past.result,
                duration=past.duration,
            )
            for past in report.history
        ),
    )


def _summary_line(member: GatewaySyncStatus) -> str:
    report = member.report
    fields = {
        "gateway": member.gateway.name,
        "podUID": member.gateway.observed_pod.uid,
        "syncStatus": member.status,
        "reason": member.reason,
        "syncedCommit": report.synced_commit if report is not None else "",
        "lastSyncTime": format_time(report.last_sync_time)
        if report and report.last_sync_time
        else "",
    }
    non_empty = {name: text for name, text in fields.items() if text}
    return visible(msgspec.json.encode(non_empty, order="sorted").decode())


FIRST_SYNCED_KEY = "_synced"
"""Not a valid pod name, so it cannot collide with a line of the summary."""


class FirstSynced(Struct, frozen=True, rename="camel"):
    """Since when all counted gateways have a commit and routing; JSON in the summary ConfigMap."""

    commit: str
    routing_hash: str
    time: datetime


def decode_first_synced(data: Mapping[str, str]) -> FirstSynced | None:
    """The stored value; None if there is none or it is invalid."""
    try:
        first_synced = msgspec.json.decode(data.get(FIRST_SYNCED_KEY, ""), type=FirstSynced)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return first_synced if first_synced.time.tzinfo is not None else None


def next_first_synced(
    before: FirstSynced | None, commit: str, routing_hash: str, *, all_synced: bool, now: datetime
) -> FirstSynced | None:
    """The value to store: it changes only when all gateways have a new commit or routing."""
    if not all_synced or not commit:
        return before
    if before is not None and (before.commit, before.routing_hash) == (commit, routing_hash):
        return before
    return FirstSynced(commit, routing_hash, now.astimezone(UTC).replace(microsecond=0))


def encode_first_synced(first_synced: FirstSynced | None) -> dict[str, str]:
    """The key of the summary ConfigMap with its value; empty for None."""
    if first_synced is None:
        return {}
    body = {
        "commit": first_synced.commit,
        "routingHash": first_synced.routing_hash,
        "time": format_time(first_synced.time),
    }
    return {FIRST_SYNCED_KEY: msgspec.json.encode(body, order="sorted").decode()}
