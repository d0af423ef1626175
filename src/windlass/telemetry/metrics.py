"""The one table of metrics: name, type, labels, meaning.

Each line of `Metrics` declares a metric and gives it a typed attribute. Labels never
carry object names; destinations appear as `destination_namespace` together with
`destination_name`, since scrapes overwrite a plain `namespace`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

from windlass.telemetry.series import Count, Level, Spread

S = TypeVar("S", Count, Level, Spread)

_SEED = "gitopsreverser_"
_MIRROR = "windlass_mirror_"
_DESTINATION = ("destination_namespace", "destination_name")
_PUSH_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0)
WORK_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)
_SHORT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


@dataclass(frozen=True, slots=True)
class Declared(Generic[S]):
    """A line of the table; on an instance of Metrics it is the live metric."""

    kind: type[S]
    name: str
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()

    @overload
    def __get__(self, instance: None, owner: type) -> Declared[S]: ...

    @overload
    def __get__(self, instance: Table, owner: type) -> S: ...

    def __get__(self, instance: Table | None, owner: type) -> Declared[S] | S:
        return self if instance is None else instance.built(self)


def count(name: str, help: str, *labels: str) -> Declared[Count]:  # noqa: A002
    """A line of a counter."""
    return Declared(Count, name, labels, help)


def level(name: str, help: str, *labels: str) -> Declared[Level]:  # noqa: A002
    """A line of a gauge."""
    return Declared(Level, name, labels, help)


def spread(
    name: str,
    help: str,  # noqa: A002
    *labels: str,
    buckets: tuple[float, ...],
) -> Declared[Spread]:
    """A line of a histogram."""
    return Declared(Spread, name, labels, help, buckets)


class Table:
    """The metrics that a class declares, in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        # Each series would otherwise be exposed twice, once as its birth time.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry
        lines = table(type(self))
        self._built: dict[str, Any] = {line.name: _build(line, registry) for line in lines}

    def built(self, line: Declared[S]) -> S:
        live: S = self._built[line.name]
        return live

    def forget(self, **labels: str) -> None:
        """Remove every series that has these labels with these values."""
        for series in self._built.values():
            series.forget(labels)


class Metrics(Table):
    """The metrics of the reverser, and of what all capabilities run on."""

    events_received = count(_SEED + "events_received_total", "Admission calls received.", "role")
    events_processed = count(_SEED + "events_processed_total", "Watch events processed.", "type")
    objects_scanned = count(_SEED + "objects_scanned_total", "Objects seen in snapshots.")
    objects_written = count(
        _SEED + "objects_written_total", "Files written in pushed commits.", "op"
    )
    files_deleted = count(
        _SEED + "files_deleted_total", "Files deleted in pushed commits.", "cause"
    )
    commits = count(_SEED + "commits_total", "Commits pushed.", "author_kind")
    commit_bytes = count(
        _SEED + "commit_bytes_total", "Bytes of files in pushed commits.", "author_kind"
    )
    git_operations = count(
        _SEED + "git_operations_total", "Git children that ended, by how they did.", "op", "result"
    )
    git_push_duration = spread(
        _SEED + "git_push_duration_seconds", "Time of one push.", buckets=_PUSH_BUCKETS
    )
    rebase_retries = count(
        _SEED + "rebase_retries_total", "Plans made again because the branch had moved."
    )
    webhook_correlations = count(
        _SEED + "webhook_correlations_total", "Admission records stored.", "role"
    )
    enrich_hits = count(_SEED + "enrich_hits_total", "Changes whose author was found.", "tier")
    enrich_misses = count(
        _SEED + "enrich_misses_total", "Changes whose author was not found.", "reason"
    )
    kv_evictions = count(
        _SEED + "kv_evictions_total", "Admission records dropped unused.", "reason"
    )
    watch_duplicates_skipped = count(
        _SEED + "watch_duplicates_skipped_total", "Watch events that changed only status."
    )
    ownership_conflicts = count(
        _SEED + "ownership_conflicts_total", "Folders found to overlap another destination's."
    )
    lease_acquire_failures = count(
        _SEED + "lease_acquire_failures_total", "Requests for the leader's lease that failed."
    )
    marker_conflicts = count(
        _SEED + "marker_conflicts_total", "Folders found to be claimed by another writer."
    )
    git_commit_queue_size = level(
        _SEED + "git_commit_queue_size", "Commits made that no server has acknowledged yet."
    )
    repo_branch_active_workers = level(
        _SEED + "repo_branch_active_workers", "Workers that are busy with Git."
    )
    repo_branch_queue_depth = level(
        _SEED + "repo_branch_queue_depth", "Changed paths waiting, over all workers."
    )

    event_to_push = spread(
        _MIRROR + "event_to_push_seconds",
        "Time from the receipt of a watch event to its acknowledged push.",
        buckets=_PUSH_BUCKETS,
    )
    watch_restarts = count(_MIRROR + "watch_restarts_total", "Watches begun again.", "reason")
    watch_lag = level(_MIRROR + "watch_lag_seconds", "Age of the oldest change not yet pushed.")
    watch_streams = level(_MIRROR + "watch_streams", "Watch streams by state.", "state")
    objects_tracked = level(_MIRROR + "objects_tracked", "Objects whose state is known.")
    prune_retained = level(
        _MIRROR + "prune_retained", "Files that spec.prune keeps although they would go."
    )
    skips = count(_MIRROR + "skips_total", "Changes that made no commit.", "reason")
    snapshot_seconds = spread(
        _MIRROR + "snapshot_seconds", "Time of one complete snapshot.", buckets=WORK_BUCKETS
    )
    snapshot_incomplete = count(
        _MIRROR + "snapshot_incomplete_total", "Snapshots that broke before their end.", "cause"
    )
    inferred_deletes = count(
        _MIRROR + "inferred_deletes_total", "Deletes concluded from a complete snapshot."
    )
    admission_seconds = spread(
        _MIRROR + "admission_seconds",
        "Time from a read admission body to its answer.",
        buckets=_SHORT_BUCKETS,
    )
    remote_reachable = level(
        _MIRROR + "remote_reachable", "1 while the remote answers.", *_DESTINATION
    )
    sync_complete = level(
        _MIRROR + "sync_complete", "1 while Git holds all that the rules name.", *_DESTINATION
    )

    authors_provable = level(
        _MIRROR + "authors_provable", "1 while no admission record of a new change can be missing."
    )

    queue_depth = level("windlass_queue_depth", "Keys waiting for a worker.", "controller")
    reconciles = count(
        "windlass_reconciles_total", "Reconciles by outcome.", "controller", "result"
    )
    reconcile_seconds = spread(
        "windlass_reconcile_seconds", "Time of one reconcile.", "controller", buckets=WORK_BUCKETS
    )

    def forget_destination(self, namespace: str, name: str) -> None:
        """Remove every series of a destination that is gone."""
        self.forget(**dict(zip(_DESTINATION, (namespace, name), strict=True)))


def table(kind: type[Table] = Metrics) -> tuple[Declared[Any], ...]:
    """Every metric that `kind` declares, in the order of the table."""
    return tuple(line for line in vars(kind).values() if isinstance(line, Declared))


def _build(line: Declared[Any], registry: CollectorRegistry) -> Count | Level | Spread:
    if line.kind is Count:
        return Count(Counter(line.name, line.help, line.labels, registry=registry), line.labels)
    if line.kind is Level:
        return Level(Gauge(line.name, line.help, line.labels, registry=registry), line.labels)
    histogram = Histogram(
        line.name, line.help, line.labels, registry=registry, buckets=line.buckets
    )
    return Spread(histogram, line.labels)
