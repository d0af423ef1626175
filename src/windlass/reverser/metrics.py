"""Counters and histograms of the reverser, and the audit log line of each push.

Called by the mirror, the workers and the reconcilers; an update costs one integer.
"""

from __future__ import annotations

import structlog

from windlass.kube.reflector import Scope
from windlass.objects.names import Identity, Key
from windlass.reverser.attribution.record_join import AuthorVerdict
from windlass.reverser.publish.commit_plan import PlannedCommit
from windlass.reverser.publish.publisher import Delivery
from windlass.runtime.controller import ReconcileResult
from windlass.telemetry.reasons import SkipReason
from windlass.telemetry.reverser import ReverserMetrics

_log = structlog.get_logger(__name__)


class MirrorMetrics:
    """Translates what happens in the reverser into its table of metrics."""

    def __init__(self, metrics: ReverserMetrics) -> None:
        self.metrics = metrics

    def count_event(self, kind: str) -> None:
        """Count a watch event by how a stream handled it."""
        if kind == "duplicate":
            self.metrics.watch_duplicates_skipped.inc()
        elif kind == "scanned":
            self.metrics.objects_scanned.inc()
        else:
            self.metrics.events_processed.inc(kind)

    def count_skip(self, identity: Identity | None, reason: SkipReason) -> None:
        """Count an object that is not mirrored; logs the reasons that need a user."""
        self.metrics.skips.inc(reason)
        if reason in (SkipReason.UNDECODABLE, SkipReason.PATH_OCCUPIED):
            _log.warning("object skipped", identifier=str(identity), reason=reason)

    def count_restart(self, reason: str) -> None:
        """Count a watch that ended and begins again."""
        self.metrics.watch_restarts.inc(reason)

    def observe_snapshot(self, seconds: float) -> None:
        """Observe the duration of one complete snapshot."""
        self.metrics.snapshot_seconds.observe(seconds)

    def stream_changed(self, scope: Scope, state: str, message: str) -> None:
        """Count and log a new state of the stream of `scope`."""
        if state == "incomplete":
            self.metrics.snapshot_incomplete.inc("abandoned")
        _log.debug("stream", scope=str(scope), state=state, message=message)

    def count_verdict(self, verdict: AuthorVerdict) -> None:
        """Count a pushed change by tier, or by the reason why it has no author."""
        if verdict.actor is not None:
            self.metrics.enrich_hits.inc(verdict.tier)
        else:
            self.metrics.enrich_misses.inc(verdict.reason)

    def count_race(self) -> None:
        """Count a push that another writer preceded."""
        self.metrics.rebase_retries.inc()

    def observe_push(self, seconds: float) -> None:
        """Observe the duration of one acknowledged push, of all folders in it."""
        self.metrics.git_push_duration.observe(seconds)

    def set_destination(self, key: Key, *, reachable: bool, synced: bool) -> None:
        """Set the gauges of one GitDestination."""
        self.metrics.remote_reachable.set(reachable, key.namespace, key.name)
        self.metrics.sync_complete.set(synced, key.namespace, key.name)

    def forget_destination(self, key: Key) -> None:
        """Remove the gauges of a deleted GitDestination."""
        self.metrics.forget_destination(key.namespace, key.name)

    def count_claim_conflict(self) -> None:
        """Count a folder that another destination claims."""
        self.metrics.marker_conflicts.inc()

    def count_overlap(self) -> None:
        """Count a folder that overlaps the folder of another destination."""
        self.metrics.ownership_conflicts.inc()

    def count_git_operation(self, operation: str, result: str) -> None:
        """Count one git process by operation and result."""
        self.metrics.git_operations.inc(operation, result)

    def observe_reconcile(self, reconcile: ReconcileResult) -> None:
        """Count one reconcile and observe its duration."""
        self.metrics.reconciles.inc(reconcile.controller, reconcile.result)
        self.metrics.reconcile_seconds.observe(reconcile.seconds, reconcile.controller)

    def log_push(self, delivery: Delivery) -> None:
        """Count one folder's part of an acknowledged push; its log line is the audit record."""
        built, written = delivery.built, delivery.written
        self.metrics.event_to_push.observe(delivery.lag_seconds)
        for commit in written.commits:
            self._count_commit(commit)
        changes = [change for commit in written.commits for change in commit.changes]
        _log.info(
            "pushed",
            capability="reverser",
            destination=str(written.folder.target.key),
            remote=written.folder.target.remote.display,
            branch=written.folder.target.branch,
            old=built.base,
            new=built.tip,
            commits=len(written.commits),
            files=len(written.edits),
            bytes=sum(change.size for change in changes),
            scopes=sorted({str(change.identity.gvr) for change in changes}),
            authors=sorted({commit.author.name for commit in written.commits}),
            tiers=sorted({commit.tier for commit in written.commits}),
            seconds=round(delivery.lag_seconds, 3),
            push_seconds=round(delivery.push_seconds, 3),
        )

    def _count_commit(self, commit: PlannedCommit) -> None:
        kind = _author_kind(commit)
        self.metrics.commits.inc(kind)
        self.metrics.commit_bytes.inc(kind, amount=sum(change.size for change in commit.changes))
        for change in commit.changes:
            if change.op == "DELETE":
                inferred = commit.tier == "sync"
                self.metrics.files_deleted.inc("inferred" if inferred else "event")
                if inferred:
                    self.metrics.inferred_deletes.inc()
            else:
                self.metrics.objects_written.inc(change.op)


def _author_kind(commit: PlannedCommit) -> str:
    if commit.tier == "sync":
        return "committer"
    if commit.tier == "unresolved":
        return "unresolved"
    return "serviceaccount" if commit.user.startswith("system:serviceaccount:") else "user"
