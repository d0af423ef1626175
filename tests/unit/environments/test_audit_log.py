"""The audit log of Environments."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from windlass.environments import audit_log
from windlass.runtime.outcome import Outcome, Verdict

_COMMIT = "1" * 40


def _object(**status: Any) -> dict[str, Any]:
    metadata = {"namespace": "team-a", "name": "one", "uid": "u", "generation": 3}
    return {"metadata": metadata, "status": status}


def _outcome(phase: str, reason: str) -> Outcome:
    steps = [{"name": "render", "state": "Failed"}, {"name": "prepare", "state": "Pending"}]
    fields = {"phase": phase, "revision": 2, "steps": steps, "sources": [{"commit": _COMMIT}]}
    return Outcome(Verdict("False", reason, "m"), fields=fields)


@pytest.mark.parametrize(("phase", "level"), [("Failed", "warning"), ("Deploying", "info")])
def test_a_change_is_one_line_with_every_field(phase: str, level: str) -> None:
    """The fields of the log are the same everywhere."""
    with capture_logs() as lines:
        audit_log.log_transition(
            _object(phase="Ready", revision=2), _outcome(phase, "RenderFailed"), 0.25
        )
    assert lines == [
        {
            "event": "environment changed",
            "log_level": level,
            "capability": "environments",
            "kind": "Environment",
            "namespace": "team-a",
            "name": "one",
            "uid": "u",
            "generation": 3,
            "revision": 2,
            "step": "render",
            "reason": "RenderFailed",
            "commit": _COMMIT,
            "duration_ms": 250,
            "outcome": phase,
        }
    ]


def test_a_reconcile_without_changes_logs_nothing() -> None:
    """Another message or reason alone is for the status."""
    with capture_logs() as lines:
        audit_log.log_transition(
            _object(phase="Ready", revision=2), _outcome("Ready", "Succeeded"), 0.1
        )
    assert lines == []
