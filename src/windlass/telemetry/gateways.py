"""Metrics of the gateways capability and of its agents.

Series of an IgnitionSync carry `cr_namespace` together with `cr` and go with it. An agent serves
one gateway, so none of its metrics names one.
"""

from __future__ import annotations

from windlass.telemetry.table import WORK_BUCKETS, MetricTable, counter, gauge, histogram

_GATEWAYS = "windlass_gateways_"
_CR = ("cr_namespace", "cr")


class GatewayMetrics(MetricTable):
    """Metrics of the controller of gateways."""

    reconciles = counter(_GATEWAYS + "reconcile_total", "Reconciles by result.", "result")
    reconcile_seconds = histogram(
        _GATEWAYS + "reconcile_duration_seconds", "Duration of a reconcile.", buckets=WORK_BUCKETS
    )
    ready = gauge(_GATEWAYS + "ready", "1 if all gateways are synced.", *_CR)
    paused = gauge(_GATEWAYS + "paused", "1 if spec.paused is true.", *_CR)
    condition = gauge(
        _GATEWAYS + "condition", "1 for the current status of a condition.", *_CR, "type", "status"
    )
    discovered = gauge(_GATEWAYS + "discovered", "Number of discovered gateways.", *_CR)
    synced = gauge(_GATEWAYS + "synced", "Number of synced gateways.", *_CR)
    missing_sidecar = gauge(
        _GATEWAYS + "missing_sidecar", "Number of gateways without an agent container.", *_CR
    )
    degraded = gauge(
        _GATEWAYS + "degraded",
        "Number of gateways that run on older files because a source is unavailable.",
        *_CR,
    )
    drifted_files = gauge(
        _GATEWAYS + "drifted_files", "Number of files that differ from Git.", *_CR, "gateway"
    )
    gateway_status = gauge(
        _GATEWAYS + "gateway_status",
        "1 for the current sync status of a gateway.",
        *_CR,
        "gateway",
        "status",
    )
    last_sync = gauge(
        _GATEWAYS + "last_sync_timestamp_seconds",
        "Time of the last sync of a gateway.",
        *_CR,
        "gateway",
    )
    ref_resolves = counter(_GATEWAYS + "ref_resolve_total", "Ref resolutions by result.", "result")
    ref_resolve_seconds = histogram(
        _GATEWAYS + "ref_resolve_duration_seconds",
        "Duration of a ref resolution.",
        buckets=WORK_BUCKETS,
    )
    ref_resolves_shared = counter(
        _GATEWAYS + "ref_resolve_shared_total",
        "Ref resolutions that were served by the request of another object.",
    )

    def forget_condition(self, namespace: str, name: str, kind: str) -> None:
        """Remove the series of one condition."""
        self.condition.forget({"cr_namespace": namespace, "cr": name, "type": kind})

    def forget_cr(self, namespace: str, name: str) -> None:
        """Remove every series of an IgnitionSync that is gone."""
        self.forget(cr_namespace=namespace, cr=name)

    def forget_gateways(self, namespace: str, name: str) -> None:
        """Remove the series of all gateways of an IgnitionSync, before they are set again."""
        for line in (self.drifted_files, self.gateway_status, self.last_sync):
            line.forget({"cr_namespace": namespace, "cr": name})


_AGENT = "windlass_agent_"


class AgentMetrics(MetricTable):
    """Metrics of one agent."""

    syncs = counter(_AGENT + "sync_total", "Syncs by result.", "result")
    sync_seconds = histogram(
        _AGENT + "sync_duration_seconds",
        "Duration of the phases of a sync: fetch, plan, stage, apply, scan.",
        "phase",
        buckets=WORK_BUCKETS,
    )
    sync_skipped = counter(
        _AGENT + "sync_skipped_total", "Checks without a sync, by reason.", "reason"
    )
    fetch_bytes = counter(_AGENT + "fetch_bytes_total", "Bytes that fetches added to the store.")
    files = counter(_AGENT + "files_total", "Changed files by operation.", "op")
    bytes_written = counter(_AGENT + "bytes_written_total", "Bytes written to files.")
    plan_files = gauge(_AGENT + "plan_files", "Number of files in the plan of the gateway.")
    scans = counter(_AGENT + "scan_total", "Scans by kind and result.", "kind", "result")
    scan_seconds = histogram(
        _AGENT + "scan_duration_seconds", "Duration of a scan.", "kind", buckets=WORK_BUCKETS
    )
    drift_files = gauge(
        _AGENT + "drift_files", "Number of files that differ from Git, by class.", "class"
    )
    journal_resumes = counter(
        _AGENT + "journal_resumes_total", "Interrupted syncs that were resumed after a restart."
    )
    rollbacks = counter(_AGENT + "rollbacks_total", "Rollbacks by trigger.", "trigger")
    lock_held = gauge(_AGENT + "lock_held", "1 while the agent holds the lock of the data volume.")
    last_success = gauge(
        _AGENT + "last_success_timestamp_seconds", "Time at which the gateway was last synced."
    )
    peak_rss = gauge(_AGENT + "peak_rss_bytes", "Peak resident memory of the agent, in bytes.")
