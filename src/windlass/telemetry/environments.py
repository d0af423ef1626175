"""Metrics of the environments capability.

Series of an Environment carry `env_namespace`, `environment` and `project`, and go with it.
"""

from __future__ import annotations

from windlass.telemetry.table import WORK_BUCKETS, MetricTable, counter, gauge, histogram

_ENV = "windlass_env_"
_OBJECT = ("env_namespace", "environment", "project")
_LONG_BUCKETS = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)


class EnvironmentMetrics(MetricTable):
    """Metrics of the environments capability."""

    phase = gauge(_ENV + "phase", "1 for the current phase of an Environment.", *_OBJECT, "phase")
    time_to_ready = histogram(
        _ENV + "time_to_ready_seconds",
        "Time from the creation of an Environment until it was ready for the first time.",
        "mode",
        buckets=_LONG_BUCKETS,
    )
    step_seconds = histogram(
        _ENV + "step_duration_seconds",
        "Time from the start of a step to its end, in whole seconds.",
        "step",
        "result",
        buckets=_LONG_BUCKETS,
    )
    overhead_seconds = histogram(
        _ENV + "operator_overhead_seconds",
        "Time from a resolved commit until all objects of a new revision were applied.",
        "mode",
        buckets=WORK_BUCKETS,
    )
    render_seconds = histogram(
        _ENV + "render_duration_seconds",
        "Time from a resolved commit to its rendered objects.",
        "mode",
        buckets=WORK_BUCKETS,
    )
    render_rejected = counter(
        _ENV + "render_rejected_total", "Commits that could not be rendered, by reason.", "reason"
    )
    applied_objects = counter(
        _ENV + "applied_objects_total", "Objects of bundles that were created or updated.", "kind"
    )
    drift_corrections = counter(
        _ENV + "drift_corrections_total", "Objects whose drift was corrected.", "kind"
    )
    pruned_objects = counter(
        _ENV + "pruned_objects_total",
        "Objects deleted because they are no longer in the source.",
        "kind",
    )
    namespace_delete_seconds = histogram(
        _ENV + "namespace_delete_seconds",
        "Time from the deletion of an Environment until its namespace was gone.",
        buckets=_LONG_BUCKETS,
    )
    namespace_delete_blocked = gauge(
        _ENV + "namespace_delete_blocked",
        "Environments whose deletion is blocked by their namespace.",
    )
    orphans_deleted = counter(
        _ENV + "orphans_deleted_total",
        "Namespaces deleted because their Environment no longer existed.",
    )

    def forget_environment(self, namespace: str, name: str) -> None:
        """Remove every series of an Environment that is gone."""
        self.forget(env_namespace=namespace, environment=name)
