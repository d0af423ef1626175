"""What the passes over Environments are counted by."""

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
def measures() -> ReconcileMetrics:
    """Counters that nobody else uses."""
    return ReconcileMetrics(EnvironmentMetrics(CollectorRegistry()))


def _value(measures: ReconcileMetrics, name: str, **labels: str) -> float | None:
    return measures.metrics.registry.get_sample_value(f"windlass_env_{name}", labels)


def _said(phase: str, *steps: Object) -> Outcome:
    return Outcome(Verdict("True", "Succeeded", ""), fields={"phase": phase, "steps": [*steps]})


def test_an_environment_is_in_one_phase(measures: ReconcileMetrics) -> None:
    """The series of the phase before is gone, and all of them with the object."""
    measures.record_reconcile(_KEY, "shop", {}, _said("Deploying"))
    measures.record_reconcile(_KEY, "shop", {}, _said("Ready"))
    assert _value(measures, "phase", **_OWN, phase="Ready") == 1
    assert _value(measures, "phase", **_OWN, phase="Deploying") is None
    measures.forget(_KEY)
    assert _value(measures, "phase", **_OWN, phase="Ready") is None


def test_a_step_is_timed_once(measures: ReconcileMetrics) -> None:
    """When it ends, by its own times; a pass in which nothing happened adds nothing."""
    row: Object = {
        "name": "rollout",
        "state": "Succeeded",
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:00:07Z",
    }
    measures.record_reconcile(
        _KEY, "shop", {"steps": [{**row, "state": "Running"}]}, _said("Ready", row)
    )
    measures.record_reconcile(_KEY, "shop", {"steps": [row]}, _said("Ready", row))
    labels = {"step": "rollout", "result": "Succeeded"}
    assert _value(measures, "step_duration_seconds_count", **labels) == 1
    assert _value(measures, "step_duration_seconds_sum", **labels) == 7


def test_who_is_held_up_is_counted_until_it_goes(measures: ReconcileMetrics) -> None:
    """Being looked at again does not count twice."""
    measures.record_deletion(_KEY, is_blocked=True)
    measures.record_deletion(_KEY, is_blocked=True)
    assert _value(measures, "namespace_delete_blocked") == 1
    measures.record_namespace_deleted(_KEY, 12.0)
    assert _value(measures, "namespace_delete_blocked") == 0
    assert _value(measures, "namespace_delete_seconds_sum") == 12
