"""The metrics of the reverser, and of what all capabilities run on.

Destinations appear as `destination_namespace` together with `destination_name`, since
scrapes overwrite a plain `namespace`.
"""

from __future__ import annotations

from windlass.telemetry.table import WORK_BUCKETS, MetricTable, counter, gauge, histogram

_REVERSER = "gitopsreverser_"
_MIRROR = "windlass_mirror_"
_DESTINATION = ("destination_namespace", "destination_name")
_PUSH_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0)
_SHORT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class ReverserMetrics(MetricTable):
    """The metrics of the reverser, and of what all capabilities run on."""

    events_received = counter(
        _REVERSER + "events_received_total", "Admission requests received.", "role"
    )
    events_processed = counter(
        _REVERSER + "events_processed_total", "Watch events processed.", "type"
    )
    objects_scanned = counter(_REVERSER + "objects_scanned_total", "Objects listed in snapshots.")
    objects_written = counter(
        _REVERSER + "objects_written_total", "Files written in pushed commits.", "op"
    )
    files_deleted = counter(
        _REVERSER + "files_deleted_total", "Files deleted in pushed commits.", "cause"
    )
    commits = counter(_REVERSER + "commits_total", "Commits pushed.", "author_kind")
    commit_bytes = counter(
        _REVERSER + "commit_bytes_total", "Bytes of files in pushed commits.", "author_kind"
    )
    git_operations = counter(
        _REVERSER + "git_operations_total",
        "Git commands by result.",
        "op",
        "result",
    )
    git_push_duration = histogram(
        _REVERSER + "git_push_duration_seconds", "Duration of a push.", buckets=_PUSH_BUCKETS
    )
    rebase_retries = counter(
        _REVERSER + "rebase_retries_total", "Commits planned again because the branch had moved."
    )
    webhook_correlations = counter(
        _REVERSER + "webhook_correlations_total", "Admission records stored.", "role"
    )
    enrich_hits = counter(
        _REVERSER + "enrich_hits_total", "Changes whose author was found.", "tier"
    )
    enrich_misses = counter(
        _REVERSER + "enrich_misses_total", "Changes whose author was not found.", "reason"
    )
    kv_evictions = counter(
        _REVERSER + "kv_evictions_total", "Admission records dropped unused.", "reason"
    )
    watch_duplicates_skipped = counter(
        _REVERSER + "watch_duplicates_skipped_total",
        "Watch events that changed nothing that is mirrored.",
    )
    ownership_conflicts = counter(
        _REVERSER + "ownership_conflicts_total",
        "Folders that overlap the folder of another destination.",
    )
    lease_acquire_failures = counter(
        _REVERSER + "lease_acquire_failures_total", "Failed requests for the leader lease."
    )
    marker_conflicts = counter(
        _REVERSER + "marker_conflicts_total", "Folders that another writer has claimed."
    )
    git_commit_queue_size = gauge(
        _REVERSER + "git_commit_queue_size", "Commits that the remote has not acknowledged yet."
    )
    repo_branch_active_workers = gauge(
        _REVERSER + "repo_branch_active_workers", "Branch workers that are using Git."
    )
    repo_branch_queue_depth = gauge(
        _REVERSER + "repo_branch_queue_depth", "Changed paths waiting to be pushed."
    )

    event_to_push = histogram(
        _MIRROR + "event_to_push_seconds",
        "Time from the receipt of a watch event to its acknowledged push.",
        buckets=_PUSH_BUCKETS,
    )
    watch_restarts = counter(_MIRROR + "watch_restarts_total", "Watch restarts.", "reason")
    watch_lag = gauge(_MIRROR + "watch_lag_seconds", "Age of the oldest change not yet pushed.")
    watch_streams = gauge(_MIRROR + "watch_streams", "Watch streams by state.", "state")
    objects_tracked = gauge(_MIRROR + "objects_tracked", "Objects that watches keep track of.")
    prune_retained = gauge(
        _MIRROR + "prune_retained", "Files that are kept only because of spec.prune."
    )
    skips = counter(_MIRROR + "skips_total", "Changes that were skipped.", "reason")
    snapshot_seconds = histogram(
        _MIRROR + "snapshot_seconds", "Duration of a complete snapshot.", buckets=WORK_BUCKETS
    )
    snapshot_incomplete = counter(
        _MIRROR + "snapshot_incomplete_total", "Snapshots that were not completed.", "cause"
    )
    inferred_deletes = counter(
        _MIRROR + "inferred_deletes_total", "Deletions inferred from a complete snapshot."
    )
    admission_seconds = histogram(
        _MIRROR + "admission_seconds",
        "Time from reading an admission request to its response.",
        buckets=_SHORT_BUCKETS,
    )
    remote_reachable = gauge(
        _MIRROR + "remote_reachable", "1 if the remote is reachable.", *_DESTINATION
    )
    sync_complete = gauge(
        _MIRROR + "sync_complete", "1 if Git has every selected object.", *_DESTINATION
    )

    authors_provable = gauge(
        _MIRROR + "authors_provable", "1 if no admission record of a new change can be missing."
    )

    queue_depth = gauge("windlass_queue_depth", "Keys waiting for a worker.", "controller")
    reconciles = counter(
        "windlass_reconciles_total", "Reconciles by outcome.", "controller", "result"
    )
    reconcile_seconds = histogram(
        "windlass_reconcile_seconds", "Duration of a reconcile.", "controller", buckets=WORK_BUCKETS
    )

    def forget_destination(self, namespace: str, name: str) -> None:
        """Remove every series of a destination that is gone."""
        self.forget(**dict(zip(_DESTINATION, (namespace, name), strict=True)))
