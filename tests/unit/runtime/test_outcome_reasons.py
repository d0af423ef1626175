"""Outcomes whose Stalled or Reconciling has a reason of its own, and postponed reconciles."""

from __future__ import annotations

from datetime import UTC, datetime

from windlass.objects.names import Object
from windlass.runtime import status as runtime_status
from windlass.runtime.outcome import Outcome, Verdict

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAILED = Verdict("False", "CloneFailed", "AuthFailed: no")


def _reasons(outcome: Outcome) -> dict[str, str]:
    status: Object = runtime_status.build_status({}, outcome, generation=1, now=NOW)
    return {row["type"]: row["reason"] for row in status["conditions"]}


def test_stalled_and_reconciling_may_have_a_reason_of_their_own() -> None:
    """Ready reports what fails, the other condition why."""
    stalled = Outcome(FAILED, stalled=True, because="AuthFailed")
    assert _reasons(stalled) == {"Ready": "CloneFailed", "Stalled": "AuthFailed"}
    busy = Outcome(FAILED, reconciling=True, because="Reconciling")
    assert _reasons(busy) == {"Ready": "CloneFailed", "Reconciling": "Reconciling"}
    plain = Outcome(FAILED, stalled=True)
    assert _reasons(plain) == {"Ready": "CloneFailed", "Stalled": "CloneFailed"}


def test_a_postponed_reconcile_reports_nothing_and_is_requeued() -> None:
    """It observed nothing, so it has no status to report."""
    later = Outcome.postponed(1.5)
    assert later.is_gone
    assert later.requeue_after == 1.5
