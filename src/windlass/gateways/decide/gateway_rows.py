"""How gateways are shown: rows of the CR's status, lines of the ConfigMap for people.

Both repeat what the pods and the agents' reports say and add nothing, so equal standings
are shown in equal bytes.
"""

from __future__ import annotations

import msgspec

from windlass.api.kinds.ignitionsync_status import DriftStatus, GatewayStatus, PastSyncStatus
from windlass.gateways.decide.standing import Standing, Tally
from windlass.gateways.decide.status_report import Report, written
from windlass.objects.names import Object

MOST_SHOWN = 256


def rows(found: Tally) -> list[Object]:
    """`status.discoveredGateways`: the first 256 by name."""
    return [msgspec.to_builtins(_row(one)) for one in found.standings[:MOST_SHOWN]]


def summary(found: Tally) -> dict[str, str]:
    """The status ConfigMap for people: a line of JSON for each pod."""
    return {one.gateway.live.name: _line(one) for one in found.standings}


def _row(one: Standing) -> GatewayStatus:
    said, pod = one.report, one.gateway.live.pod
    base = GatewayStatus(
        name=one.gateway.name[:253],
        namespace=pod.namespace,
        pod_name=pod.name,
        pod_uid=one.gateway.live.uid,
        service_path=(pod.said("service-path") or "")[:512],
        profile=one.profile,
        sync_status=one.status,
        reason=one.reason,
        message=one.message,
    )
    return base if said is None else _reported(base, said)


def _reported(base: GatewayStatus, said: Report) -> GatewayStatus:
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


def _line(one: Standing) -> str:
    said = one.report
    told = {
        "gateway": one.gateway.name,
        "podUID": one.gateway.live.uid,
        "syncStatus": one.status,
        "reason": one.reason,
        "syncedCommit": said.synced_commit if said is not None else "",
        "lastSyncTime": written(said.last_sync_time) if said and said.last_sync_time else "",
    }
    kept = {name: text for name, text in told.items() if text}
    return msgspec.json.encode(kept, order="sorted").decode()
