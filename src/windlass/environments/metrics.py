"""Metrics of the environments capability: one method per observation.

Called by the reconcilers; `telemetry` owns the table of metric names.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from windlass.objects.names import Key, Object
from windlass.runtime.outcome import Outcome
from windlass.telemetry.environments import EnvironmentMetrics

_FINAL_STATES = frozenset({"Succeeded", "Failed"})


class ReconcileMetrics:
    """Records observations of reconciles in the metrics table."""

    def __init__(self, metrics: EnvironmentMetrics) -> None:
        self.metrics = metrics
        # Environments whose deletion is blocked now; the gauge is their number.
        self._blocked: set[Key] = set()
        # The phase that is exported for each Environment.
        self._phases: dict[Key, str] = {}
        # Series of an earlier leadership, of objects that may be gone by now.
        metrics.phase.forget({})
        metrics.namespace_delete_blocked.set(0)

    def record_reconcile(self, key: Key, project: str, status: Object, outcome: Outcome) -> None:
        """Export the phase after a reconcile that started from `status`, and finished steps."""
        fields = outcome.fields
        phase = fields.get("phase") or status.get("phase")
        if phase and self._phases.get(key) != phase:
            self._phases[key] = str(phase)
            self.metrics.phase.forget({"env_namespace": key.namespace, "environment": key.name})
            self.metrics.phase.set(1, key.namespace, key.name, project, str(phase))
        self._observe_steps(status.get("steps") or [], fields.get("steps") or [])

    def record_first_ready(self, created: datetime, ready: datetime, mode: str) -> None:
        """Observe the time from creation to the first readiness of an Environment."""
        self.metrics.time_to_ready.observe(max(0.0, (ready - created).total_seconds()), mode)

    def record_render(self, seconds: float, mode: str) -> None:
        self.metrics.render_seconds.observe(seconds, mode)

    def record_render_rejection(self, reason: str) -> None:
        self.metrics.render_rejected.inc(reason)

    def record_rollout(self, seconds: float, mode: str) -> None:
        """Observe the time from a resolved commit to all objects of its revision applied."""
        self.metrics.overhead_seconds.observe(seconds, mode)

    def record_applied(self, kinds: Iterable[str]) -> None:
        for kind in kinds:
            self.metrics.applied_objects.inc(kind)

    def record_pruned(self, names: Iterable[str]) -> None:
        """Count deleted objects; `names` have the form Kind/name."""
        for name in names:
            self.metrics.pruned_objects.inc(name.partition("/")[0])

    def record_correction(self, kind: str) -> None:
        """Count a restored object of `kind`."""
        self.metrics.drift_corrections.inc(kind)

    def record_deletion(self, key: Key, *, is_blocked: bool) -> None:
        """Export whether the deletion of an Environment is blocked."""
        (self._blocked.add if is_blocked else self._blocked.discard)(key)
        self.metrics.namespace_delete_blocked.set(len(self._blocked))

    def record_namespace_deleted(self, key: Key, seconds: float) -> None:
        """Observe how long the namespaces of an Environment took to go away."""
        self.record_deletion(key, is_blocked=False)
        self.metrics.namespace_delete_seconds.observe(seconds)

    def record_orphan_deleted(self) -> None:
        self.metrics.orphans_deleted.inc()

    def forget(self, key: Key) -> None:
        """Drop all series of an Environment that is gone."""
        self.record_deletion(key, is_blocked=False)
        self._phases.pop(key, None)
        self.metrics.forget_environment(key.namespace, key.name)

    def _observe_steps(self, before: Iterable[Object], now: Iterable[Object]) -> None:
        states = {row["name"]: row["state"] for row in before}
        for row in now:
            if row["state"] in _FINAL_STATES and row["state"] != states.get(row["name"]):
                started, finished = parse_time(row["startedAt"]), parse_time(row["finishedAt"])
                seconds = max(0.0, (finished - started).total_seconds())
                self.metrics.step_seconds.observe(seconds, row["name"], row["state"])


def parse_time(text: str) -> datetime:
    """A time in the format of the Kubernetes API, in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC)
