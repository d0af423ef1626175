"""The status that a reconcile of an Environment reports."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from windlass.api.kinds.environment import EnvironmentStatus
from windlass.environments import phase, step
from windlass.environments import status as environment_status
from windlass.environments.inventory import ReleaseRevision
from windlass.environments.phase import PhaseContext
from windlass.environments.status import ReconcileReport, SourceCommit
from windlass.environments.step import StepResult
from windlass.objects.names import Object
from windlass.runtime import status

NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
STAMP, LATER = "2026-05-04T03:02:01Z", NOW + timedelta(minutes=5)
NEW, OLD = "b" * 40, "a" * 40
DONE = (
    ("namespace", step.success(phase.NAMESPACE, "NamespaceActive", "there")),
    ("policies", step.success(phase.POLICIES, "PoliciesApplied", "in force")),
    ("source", step.success(phase.BUILD, "NoBuildNeeded", "No build needed")),
    ("render", step.success(phase.DEPLOYMENT, "Rendering", "2 objects")),
    ("prepare", step.success(phase.DEPLOYMENT, "Applying", "applied")),
    ("workloads", step.success(phase.DEPLOYMENT, "Applying", "applied")),
    ("rollout", step.success(phase.DEPLOYMENT, "RolloutComplete", "3 of 3 objects ready")),
)
READY = ReconcileReport(
    DONE,
    PhaseContext(was_ready=True),
    "env-shop",
    "ns-uid",
    (SourceCommit("app", "main", OLD, "refs/heads/main"),),
    ReleaseRevision(3, "digest", NOW, NOW),
    unsupported=("Ingress/web is not applied",),
)


def _status(
    report: ReconcileReport, before: Object, *, generation: int = 1, now: datetime = NOW
) -> Any:
    outcome = environment_status.build_outcome(report, before, now)
    return status.build_status(before, outcome, generation=generation, now=now)


def _until(name: str, result: StepResult, **changes: Any) -> ReconcileReport:
    """A reconcile that ends with `result` in the step `name`."""
    done = DONE[: [step for step, _ in DONE].index(name)]
    return replace(READY, results=(*done, (name, result)), **changes)


def _states(status: Object) -> dict[str, str]:
    return {row["name"]: row["state"] for row in status["steps"]}


CONVERGED = _status(READY, {})


def test_hooks_are_steps_where_there_are_some() -> None:
    """Ready waits for those after the rollout; while they run, it is the new one that serves."""
    waits = step.waiting(phase.DEPLOYMENT, "HookRunning", "Job/a runs")
    before = ("preDeploy", step.success(phase.DEPLOYMENT, "Applying", "complete"))
    report = replace(
        READY,
        results=(*DONE[:4], before, *DONE[4:], ("postDeploy", waits)),
        phase_context=PhaseContext(),
        revision=ReleaseRevision(4, "new", NOW),
        hooks=frozenset({"preDeploy", "postDeploy"}),
    )
    status = _status(report, CONVERGED)
    assert (status["phase"], status["progress"]) == ("Deploying", "8/9")
    assert status["serving"] == CONVERGED["serving"]
    assert status["message"] == "Job/a runs"
    last = ["preDeploy", "prepare", "workloads", "rollout", "postDeploy"]
    assert list(_states(status))[4:] == last
    unknown = _status(_until("source", waits), status)
    assert _states(unknown)["postDeploy"] == "Pending"
    without = _status(replace(READY, hooks=frozenset()), status)
    assert without["progress"] == "7/7"


def test_a_complete_reconcile() -> None:
    """Everything is reported once, and everything agrees."""
    assert CONVERGED["phase"] == "Ready"
    assert CONVERGED["message"] == "Revision 3 is ready"
    assert CONVERGED["progress"] == "7/7"
    assert set(_states(CONVERGED).values()) == {"Succeeded"}
    assert CONVERGED["serving"] == {"revision": 3, "commits": {"app": OLD}, "since": STAMP}
    assert CONVERGED["unsupported"] == ["Ingress/web is not applied"]
    assert (CONVERGED["namespace"], CONVERGED["namespaceUID"]) == ("env-shop", "ns-uid")
    rows = {row.type: row for row in status.status_conditions(CONVERGED)}
    assert rows["Ready"].status == "True"
    assert rows[phase.DEPLOYMENT].reason == "RolloutComplete"
    assert {kind: rows[kind].status for kind in phase.CONDITIONS} == dict.fromkeys(
        phase.CONDITIONS, "True"
    )


def test_a_second_reconcile_changes_nothing() -> None:
    """Later, with the same results, the status is the same to the byte."""
    assert _status(READY, CONVERGED, now=LATER) == CONVERGED


def test_an_early_end_takes_nothing_back() -> None:
    """A reconcile that did not read the bundle keeps the list of omissions."""
    trouble = step.retrying(phase.BUILD, "GitUnavailable", "no answer")
    after = _status(_until("source", trouble, sources=(), unsupported=None), CONVERGED)
    assert after["phase"] == "Building"
    for name in ("serving", "sources", "unsupported", "namespace", "revision"):
        assert after[name] == CONVERGED[name]
    assert environment_status.build_outcome(_until("source", trouble), CONVERGED, NOW).backoff
    assert _states(after) == {
        "namespace": "Succeeded",
        "policies": "Succeeded",
        "source": "Running",
        "render": "Pending",
        "prepare": "Pending",
        "workloads": "Pending",
        "rollout": "Pending",
    }


def test_omissions_follow_the_last_bundle() -> None:
    """A bundle that was read replaces the list."""
    assert "unsupported" not in _status(replace(READY, unsupported=()), CONVERGED)


@pytest.mark.scenario("E76")
def test_a_commit_that_fails_leaves_the_old_one_named() -> None:
    """Serving stays, and the message says so; the desired commit is the new one."""
    refused = step.failed(phase.DEPLOYMENT, "KindNotAllowed", "Namespace/x: it may not")
    report = _until(
        "render",
        refused,
        sources=(SourceCommit("app", "main", NEW, "refs/heads/main"),),
        unsupported=None,
    )
    after = _status(report, CONVERGED)
    assert after["phase"] == "Failed"
    assert after["message"] == f"Namespace/x: it may not; still serving revision 3 ({OLD[:7]})"
    assert after["serving"] == CONVERGED["serving"]
    assert after["sources"][0]["commit"] == NEW
    assert _states(after)["render"] == "Failed"
    rows = {row.type: row for row in status.status_conditions(after)}
    assert (rows["Ready"].reason, rows["Stalled"].status) == ("KindNotAllowed", "True")


def test_nothing_serves_where_the_namespace_is_gone() -> None:
    """So the sentence does not claim it."""
    taken = step.failed(phase.NAMESPACE, "NamespaceNotOwned", "not owned by this Environment")
    report = _until("namespace", taken, unsupported=None)
    assert _status(report, CONVERGED)["message"] == "not owned by this Environment"


def test_a_revision_on_its_way_is_not_serving() -> None:
    """The message names the one that still is."""
    waits = step.waiting(phase.DEPLOYMENT, "RolloutProgressing", "0 of 1 pods", after=9.0)
    report = _until(
        "rollout", waits, revision=ReleaseRevision(4, "d4", NOW), phase_context=PhaseContext()
    )
    after = _status(report, CONVERGED)
    assert (after["phase"], after["revision"]) == ("Deploying", 4)
    assert after["serving"]["revision"] == 3
    assert after["message"].endswith("; still serving revision 3 (aaaaaaa)")
    assert environment_status.build_outcome(report, CONVERGED, NOW).requeue_after == 9.0


@pytest.mark.scenario("E75")
def test_pods_that_crash_later_degrade() -> None:
    """The desired revision was ready, so nothing is stalled and no other one serves."""
    crash = step.failed(phase.DEPLOYMENT, "CrashLooping", "is crash looping")
    after = _status(_until("rollout", crash), CONVERGED)
    assert (after["phase"], after["message"]) == ("Degraded", "is crash looping")
    types = {row.type for row in status.status_conditions(after)}
    assert not types & {"Stalled", "Reconciling"}
    assert _status(READY, after)["phase"] == "Ready"


@pytest.mark.parametrize("after", [None, 5.0])
def test_waiting_is_not_failing(after: float | None) -> None:
    """Whether a watch or a moment leads back."""
    waits = step.waiting(phase.NAMESPACE, "NamespacePending", "not yet", after=after)
    status = _status(_until("namespace", waits), {})
    assert _states(status)["namespace"] == "Running"
    assert status["phase"] == "Initializing"


def test_an_old_failure_does_not_outlive_its_spec() -> None:
    """After a change of the spec a failed Environment is reported as reconciling."""
    refused = step.failed(phase.DEPLOYMENT, "KindNotAllowed", "no")
    failed = _status(_until("render", refused), {}, generation=1)
    waits = _until("source", step.waiting(phase.BUILD, "ResolvingSource", "fetching", after=1.0))
    same = _status(replace(waits, generation=1), failed, generation=1)
    changed = _status(replace(waits, generation=2), failed, generation=2)
    assert (same["phase"], changed["phase"]) == ("Failed", "Building")
    assert not {row.type for row in status.status_conditions(changed)} & {"Stalled"}


def test_moments_move_with_their_state() -> None:
    """A step that runs goes on; one that ends keeps its beginning."""
    waits = step.waiting(phase.DEPLOYMENT, "RolloutProgressing", "0 of 1", after=9.0)
    running = _status(_until("rollout", waits, phase_context=PhaseContext()), {})
    row = running["steps"][-1]
    assert row == {"name": "rollout", "state": "Running", "message": "0 of 1", "startedAt": STAMP}
    ended = _status(READY, running, now=LATER)["steps"][-1]
    assert (ended["startedAt"], ended["finishedAt"]) == (STAMP, status.timestamp(LATER))
    again = _status(_until("rollout", waits), _status(READY, running, now=LATER), now=LATER)
    assert again["steps"][-1]["startedAt"] == status.timestamp(LATER)
    assert "finishedAt" not in again["steps"][-1]


def test_everything_fits_its_field() -> None:
    """However much there is to report, the API server accepts the status."""
    long = step.failed(phase.DEPLOYMENT, "FieldNotAllowed", "x" * 5000)
    report = _until("render", long, unsupported=("y" * 900,) * 60)
    after = _status(report, CONVERGED)
    assert len(after["message"]) <= 1024
    assert after["message"].endswith("revision 3 (aaaaaaa)")
    assert all(len(row.get("message", "")) <= 1024 for row in after["steps"])
    assert len(after["unsupported"]) == 50
    assert max(map(len, after["unsupported"])) <= 512
    assert set(after) <= {field.encode_name for field in msgspec.structs.fields(EnvironmentStatus)}


def test_the_next_reconcile() -> None:
    """The nearest of a resync, a poll and the request of the last step."""
    assert environment_status.build_outcome(READY, {}, NOW).requeue_after == 600.0
    assert (
        environment_status.build_outcome(replace(READY, poll_seconds=60.0), {}, NOW).requeue_after
        == 60.0
    )


def test_a_retry_is_acknowledged() -> None:
    """And stays so."""
    after = _status(replace(READY, retry_at="now"), CONVERGED)
    assert after["lastHandledRetryAt"] == "now"
    assert _status(READY, after)["lastHandledRetryAt"] == "now"


def test_a_retry_that_waits_for_git_is_not_acknowledged_yet() -> None:
    """Else it would be lost: only the apply gives a stuck revision its time again."""
    waits = step.pending(phase.BUILD, "ResolvingSource", "waiting for the Git server")
    waiting = _status(_until("source", waits, retry_at="now"), CONVERGED)
    assert "lastHandledRetryAt" not in waiting
    failed = step.failed(phase.BUILD, "GitAuthFailed", "no")
    assert _status(_until("source", failed, retry_at="now"), waiting)["lastHandledRetryAt"] == "now"
    rollout = step.waiting(phase.DEPLOYMENT, "RolloutProgressing", "0 of 1", after=9.0)
    applied = _until("rollout", rollout, retry_at="now", hooks=frozenset())
    assert _status(applied, waiting)["lastHandledRetryAt"] == "now"


def test_a_route_that_is_not_applied_is_not_ready() -> None:
    """It blocks nothing, stays reported while no bundle is read, and ends with the route."""
    status = _status(replace(READY, routes=("Ingress/web",)), {})
    rows = {row["type"]: row for row in status["conditions"]}
    assert (rows["IngressReady"]["status"], status["phase"]) == ("False", "Ready")
    assert "Ingress/web not applied" in rows["IngressReady"]["message"]
    blind = _until("source", step.waiting(phase.BUILD, "GitUnavailable", "x"), unsupported=None)
    later = _status(blind, status)
    rows = {row["type"]: row for row in later["conditions"]}
    assert rows["IngressReady"]["status"] == "False"
    gone = {row["type"]: row for row in _status(READY, later)["conditions"]}
    assert (gone["IngressReady"]["status"], gone["IngressReady"]["reason"]) == (
        "True",
        "NotExposed",
    )


def test_more_than_fits_is_counted() -> None:
    """So that the list is not taken for complete."""
    many = tuple(f"Ingress/i{number} is not applied" for number in range(60))
    shown = _status(replace(READY, unsupported=many), {})["unsupported"]
    assert (len(shown), shown[-1]) == (50, "and 11 more")
