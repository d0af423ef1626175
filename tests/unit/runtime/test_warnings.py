"""Failures are Warning events in every capability; progress and recovery are not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from windlass.base.errors import Retryable, Stalled, Waiting
from windlass.environments import phase as phases
from windlass.environments import status as environment_report
from windlass.environments import step
from windlass.environments.status import ReconcileReport
from windlass.objects.names import Key
from windlass.reverser import destination_status
from windlass.reverser import status as reverser_status
from windlass.reverser.destination_status import DestinationProgress
from windlass.reverser.selection.rules import RuleResolution
from windlass.runtime import controller, reporter, status
from windlass.runtime.outcome import Outcome

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _destination(trouble: Retryable | Stalled | Waiting | None) -> Outcome:
    return destination_status.destination_outcome(DestinationProgress(is_open=True, error=trouble))


def _rule(*, settled: bool) -> Outcome:
    return reverser_status.rule_outcome(
        RuleResolution((), ()),
        states={},
        objects=0,
        destination=Key("ns", "dest"),
        destination_ready=False,
        destination_settled=settled,
    )


def _environment(finding: step.StepResult) -> Outcome:
    return environment_report.build_outcome(
        ReconcileReport(results=(("source", finding),)), {}, NOW
    )


FAILURES = {
    "a pass that waits for what is missing": controller.failure_outcome(
        Waiting("GitRepoConfigNotFound", "no", after=30.0)
    ),
    "a pass that is told when to come again": controller.failure_outcome(
        Retryable("TooManyRequests", "no", after=2.0)
    ),
    "a pass that broke": controller.failure_outcome(RuntimeError("boom")),
    "a pass that needs somebody": controller.failure_outcome(Stalled("AccessDenied", "no")),
    "a remote that is away during a push": _destination(Retryable("GitUnavailable", "away")),
    "a push that loses every race": _destination(Retryable("PushRaced", "late")),
    "a full disk": _destination(Retryable("DiskFull", "full")),
    "a push that is not wanted": _destination(Stalled("PushRejected", "no")),
    "a remote that cannot be asked": reverser_status.repository_unreachable(
        Retryable("ConnectionFailed", "away"), "git.example/x", after=3.0
    ),
    "a rule that selects nothing": _rule(settled=True),
    "a source that is away": _environment(
        step.waiting(phases.BUILD, "GitUnavailable", "away", after=5.0)
    ),
    "a pod that crashes": _environment(
        step.waiting(phases.DEPLOYMENT, "CrashLooping", "exited with code 3")
    ),
    "a pod that no node accepts": _environment(
        step.waiting(phases.DEPLOYMENT, "Unschedulable", "0/3 nodes are available", after=5.0)
    ),
    "isolation that others change again and again": _environment(
        step.waiting(phases.POLICIES, "Contested", "restored five times", after=5.0)
    ),
}
PROGRESS = {
    "a lease that is not held": _destination(Waiting("NotLeader", "no", after=1.0)),
    "a destination that is in order": _destination(None),
    "a rollout under way": _environment(
        step.waiting(phases.DEPLOYMENT, "RolloutProgressing", "1 of 2", after=5.0)
    ),
    "a quota that does not count yet": _environment(
        step.pending(phases.POLICIES, "QuotaPending", "soon", after=1.0)
    ),
}


def _weights(outcome: Outcome) -> list[str]:
    assert outcome.ready is not None
    new = status.build_status({}, outcome, generation=1, now=NOW)
    events = reporter.condition_events({}, new, outcome)
    return [event.weight for event in events if event.reason == outcome.ready.reason]


@pytest.mark.parametrize("what", FAILURES)
def test_a_failure_is_a_warning(what: str) -> None:
    """Also if it is retried automatically."""
    assert _weights(FAILURES[what]) == ["Warning"]


@pytest.mark.parametrize("what", PROGRESS)
def test_progress_is_not_a_warning(what: str) -> None:
    """It needs no action."""
    assert _weights(PROGRESS[what]) == ["Normal"]
