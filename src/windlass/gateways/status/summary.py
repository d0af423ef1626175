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
from windlass.gateways.status.gateway_status import FleetStatus, GatewaySyncStatus
from windlass.gateways.wire.agent_report import AgentReport, format_time
from windlass.objects.names import Object

MAX_GATEWAY_ROWS = 256


def status_rows(found: FleetStatus) -> list[Object]:
    """`status.discoveredGateways`: the first 256 by name."""
    return [msgspec.to_builtins(_status_row(one)) for one in found.gateways[:MAX_GATEWAY_ROWS]]


def summary_lines(found: FleetStatus) -> dict[str, str]:
    """The status ConfigMap for people: a line of JSON for each pod."""
    return {one.gateway.observed_pod.name: _summary_line(one) for one in found.gateways}


def _status_row(one: GatewaySyncStatus) -> GatewayStatus:
    said, pod = one.report, one.gateway.observed_pod.pod
    base = GatewayStatus(
        name=one.gateway.name[:253],
        namespace=pod.namespace,
        pod_name=pod.name,
        pod_uid=one.gateway.observed_pod.uid,
        service_path=(pod.annotation("service-path") or "")[:512],
        profile=one.profile,
        sync_status=one.status,
        reason=one.reason,
        message=one.message,
    )
    return base if said is None else _with_report(base, said)


def _with_report(base: GatewayStatus, said: AgentReport) -> GatewayStatus:
    drift = said.drift
    return msgspec.structs.replace(
        base,
        synced_commit=said.synced_commit,
        synced_ref=said.synced_ref,
        applied_commit=said.applied_commit,
        profile_hash=said.profile_hash,
        last_sync_time=said.last_sync_time,
        last_sync_duration=said.last_sync_duration,
        last_scan_result=said.last_scan_result,
        files_changed=said.files_changed,
        projects_synced=said.projects_synced,
        system_name=said.system_name,
        drift=DriftStatus(modified=drift.modified, missing=drift.missing, extra=drift.extra)
        if drift is not None
        else None,
        degraded=said.degraded or None,
        agent_version=said.agent_version,
        sync_history=tuple(
            PastSyncStatus(
                timestamp=past.timestamp,
                commit=past.commit,
                result=past.result,
                duration=past.duration,
            )
            for past in said.history
        ),
    )


def _summary_line(one: GatewaySyncStatus) -> str:
    said = one.report
    told = {
        "gateway": one.gateway.name,
        "podUID": one.gateway.observed_pod.uid,
        "syncStatus": one.status,
        "reason": one.reason,
        "syncedCommit": said.synced_commit if said is not None else "",
        "lastSyncTime": format_time(said.last_sync_time) if said and said.last_sync_time else "",
    }
    kept = {name: text for name, text in told.items() if text}
    return msgspec.json.encode(kept, order="sorted").decode()


FIRST_SYNCED_KEY = "_synced"
"""No pod can be called so."""


class FirstSynced(Struct, frozen=True, rename="camel"):
    """All counted gateways had this commit and routing from `time` on."""

    commit: str
    routing_hash: str
    time: datetime


def decode_first_synced(data: Mapping[str, str]) -> FirstSynced | None:
    """What was noted last; None where nothing can be read."""
    try:
        found = msgspec.json.decode(data.get(FIRST_SYNCED_KEY, ""), type=FirstSynced)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.time.tzinfo is not None else None


def next_first_synced(
    before: FirstSynced | None, commit: str, routing_hash: str, *, all_synced: bool, now: datetime
) -> FirstSynced | None:
    """What is to be noted now: it moves only when all have reached something new."""
    if not all_synced or not commit:
        return before
    if before is not None and (before.commit, before.routing_hash) == (commit, routing_hash):
        return before
    return FirstSynced(commit, routing_hash, now.astimezone(UTC).replace(microsecond=0))


def encode_first_synced(reached: FirstSynced | None) -> dict[str, str]:
    """The key of the ConfigMap."""
    if reached is None:
        return {}
    body = {
        "commit": reached.commit,
        "routingHash": reached.routing_hash,
        "time": format_time(reached.time),
    }
    return {FIRST_SYNCED_KEY: msgspec.json.encode(body, order="sorted").decode()}
