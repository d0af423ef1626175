"""Metrics of reconciles of Environments."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from windlass.environments.metrics import ReconcileMetrics
from windlass.objects.names import Key, Object
from windlass.runtime.outcome import Outcome, Verdict
from windlass.telemetry.environments import EnvironmentMetrics

_KEY = Key("team-a", "one")
_OWN = {"env_namespace": "team-a", "environment": "one", "project": "shop"}


@pytest.fixture
def metrics() -> ReconcileMetrics:
    """Counters of this test alone."""
    return ReconcileMetrics(EnvironmentMetrics(CollectorRegistry()))


def _value(metrics: ReconcileMetrics, name: str, **labels: str) -> float | None:
    return metrics.metrics.registry.get_sample_value(f"windlass_env_{name}", labels)


def _reported(phase: str, *steps: Object) -> Outcome:
    return Outcome(Verdict("True", "Succeeded", ""), fields={"phase": phase, "steps": [*steps]})


def test_an_environment_is_in_one_phase(metrics: ReconcileMetrics) -> None:
    """The series of the phase before is gone, and all of them with the object."""
    metrics.record_reconcile(_KEY, "shop", {}, _reported("Deploying"))
    metrics.record_reconcile(_KEY, "shop", {}, _reported("Ready"))
    assert _value(metrics, "phase", **_OWN, phase="Ready") == 1
    assert _value(metrics, "phase", **_OWN, phase="Deploying") is None
    metrics.forget(_KEY)
    assert _value(metrics, "phase", **_OWN, phase="Ready") is None


def test_a_step_is_timed_once(metrics: ReconcileMetrics) -> None:
    """When it ends, by its own times; a reconcile without changes adds nothing."""
    row: Object = {
        "name": "rollout",
        "state": "Succeeded",
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:00:07Z",
    }
    metrics.record_reconcile(
        _KEY, "shop", {"steps": [{**row, "state": "Running"}]}, _reported("Ready", row)
    )
    metrics.record_reconcile(_KEY, "shop", {"steps": [row]}, _reported("Ready", row))
    labels = {"step": "rollout", "result": "Succeeded"}
    assert _value(metrics, "step_duration_seconds_count", **labels) == 1
    assert _value(metrics, "step_duration_seconds_sum", **labels) == 7


def test_a_blocked_deletion_is_counted_until_it_completes(metrics: ReconcileMetrics) -> None:
    """Further reconciles do not count twice."""
    metrics.record_deletion(_KEY, is_blocked=True)
    metrics.record_deletion(_KEY, is_blocked=True)
    assert _value(metrics, "namespace_delete_blocked") == 1
    metrics.record_namespace_deleted(_KEY, 12.0)
    assert _value(metrics, "namespace_delete_blocked") == 0
    assert _value(metrics, "namespace_delete_seconds_sum") == 12
