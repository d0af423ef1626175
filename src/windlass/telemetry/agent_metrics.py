"""The metrics of one agent: it serves one gateway, so none of them names one."""

from __future__ import annotations

from windlass.telemetry.metric_table import WORK_BUCKETS, Table, count, level, spread

_AGENT = "windlass_agent_"


class AgentMetrics(Table):
    """All of them, in one registry."""

    syncs = count(_AGENT + "sync_total", "Syncs by result.", "result")
    sync_seconds = spread(
        _AGENT + "sync_duration_seconds",
        "Time of a sync's phases: fetch, plan, stage, apply, scan.",
        "phase",
        buckets=WORK_BUCKETS,
    )
    sync_skipped = count(
        _AGENT + "sync_skipped_total", "Looks after which nothing was synced, by why.", "reason"
    )
    fetch_bytes = count(_AGENT + "fetch_bytes_total", "Bytes that fetches added to the store.")
    files = count(_AGENT + "files_total", "Files by what was done to them.", "op")
    bytes_written = count(_AGENT + "bytes_written_total", "Bytes of written files.")
    plan_files = level(_AGENT + "plan_files", "Files that the gateway should have.")
    scans = count(_AGENT + "scan_total", "Scans by kind and result.", "kind", "result")
    scan_seconds = spread(
        _AGENT + "scan_duration_seconds", "Time of one scan.", "kind", buckets=WORK_BUCKETS
    )
    drift_files = level(_AGENT + "drift_files", "Files that differ, by how.", "class")
    journal_resumes = count(
        _AGENT + "journal_resumes_total", "Syncs that a restart took to their end."
    )
    rollbacks = count(_AGENT + "rollbacks_total", "Rollbacks by what asked for them.", "trigger")
    lock_held = level(_AGENT + "lock_held", "1 while the data volume is ours.")
    last_success = level(
        _AGENT + "last_success_timestamp_seconds", "When the gateway last had what is wanted."
    )
    peak_rss = level(_AGENT + "peak_rss_bytes", "Most memory that the agent has held.")
