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

    reconciles = counter(_GATEWAYS + "reconcile_total", "Passes by result.", "result")
    reconcile_seconds = histogram(
        _GATEWAYS + "reconcile_duration_seconds", "Time of one pass.", buckets=WORK_BUCKETS
    )
    ready = gauge(_GATEWAYS + "ready", "1 while all gateways have what is wanted.", *_CR)
    paused = gauge(_GATEWAYS + "paused", "1 while spec.paused is true.", *_CR)
    condition = gauge(
        _GATEWAYS + "condition", "1 for what a condition says.", *_CR, "type", "status"
    )
    discovered = gauge(_GATEWAYS + "discovered", "Gateways found.", *_CR)
    synced = gauge(_GATEWAYS + "synced", "Gateways that have what is wanted.", *_CR)
    missing_sidecar = gauge(_GATEWAYS + "missing_sidecar", "Gateways without an agent.", *_CR)
    degraded = gauge(_GATEWAYS + "degraded", "Gateways that run on older files.", *_CR)
    drifted_files = gauge(
        _GATEWAYS + "drifted_files", "Files that differ from Git.", *_CR, "gateway"
    )
    gateway_status = gauge(
        _GATEWAYS + "gateway_status", "1 for how a gateway is.", *_CR, "gateway", "status"
    )
    last_sync = gauge(
        _GATEWAYS + "last_sync_timestamp_seconds", "When its last sync ended.", *_CR, "gateway"
    )
    ref_resolves = counter(
        _GATEWAYS + "ref_resolve_total", "Questions for a commit, by answer.", "result"
    )
    ref_resolve_seconds = histogram(
        _GATEWAYS + "ref_resolve_duration_seconds",
        "Time until a question for a commit was answered.",
        buckets=WORK_BUCKETS,
    )
    ref_resolves_shared = counter(
        _GATEWAYS + "ref_resolve_shared_total",
        "Questions for a commit that the answer to somebody else's served.",
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
        "Time of a sync's phases: fetch, plan, stage, apply, scan.",
        "phase",
        buckets=WORK_BUCKETS,
    )
    sync_skipped = counter(
        _AGENT + "sync_skipped_total", "Looks after which nothing was synced, by why.", "reason"
    )
    fetch_bytes = counter(_AGENT + "fetch_bytes_total", "Bytes that fetches added to the store.")
    files = counter(_AGENT + "files_total", "Files by what was done to them.", "op")
    bytes_written = counter(_AGENT + "bytes_written_total", "Bytes of written files.")
    plan_files = gauge(_AGENT + "plan_files", "Files that the gateway should have.")
    scans = counter(_AGENT + "scan_total", "Scans by kind and result.", "kind", "result")
    scan_seconds = histogram(
        _AGENT + "scan_duration_seconds", "Time of one scan.", "kind", buckets=WORK_BUCKETS
    )
    drift_files = gauge(_AGENT + "drift_files", "Files that differ, by how.", "class")
    journal_resumes = counter(
        _AGENT + "journal_resumes_total", "Syncs that a restart took to their end."
    )
    rollbacks = counter(_AGENT + "rollbacks_total", "Rollbacks by what asked for them.", "trigger")
    lock_held = gauge(_AGENT + "lock_held", "1 while the data volume is ours.")
    last_success = gauge(
        _AGENT + "last_success_timestamp_seconds", "When the gateway last had what is wanted."
    )
    peak_rss = gauge(_AGENT + "peak_rss_bytes", "Most memory that the agent has held.")
