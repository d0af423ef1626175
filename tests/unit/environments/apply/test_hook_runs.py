"""Whether the next steps may continue after a hook."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.environments import manifests as written
from windlass.api.install.environment_objects import ALLOWED_KINDS, Stage
from windlass.environments.apply.hook_runs import HookRuns
from windlass.environments.bundle.bundle import Member
from windlass.objects.names import Object

MADE = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
HOOK = Member(ALLOWED_KINDS["batch", "Job"].gvr, Stage.WORKLOADS, written.job("migrate"))
_OWNER = {"kind": "Job", "name": "migrate", "controller": True}
_WAITING = {"reason": "ImagePullBackOff", "message": "no such image"}
POD: Object = {
    "metadata": {"name": "migrate-x", "ownerReferences": [_OWNER]},
    "status": {"containerStatuses": [{"name": "app", "state": {"waiting": _WAITING}}]},
}


class Cluster:
    """The pods of a namespace, and what time it is."""

    def __init__(self, seconds: float, *pods: Object) -> None:
        self._now = MADE + timedelta(seconds=seconds)
        self._pods = pods

    def list_objects(self, *_: object) -> tuple[Object, ...]:
        return self._pods

    def now(self) -> datetime:
        return self._now


def _live(condition: str = "", **spec: Any) -> Object:
    rows = [{"type": condition, "status": "True", "message": "backoff limit"}] if condition else []
    result = written.job("migrate")
    result["metadata"]["creationTimestamp"] = MADE.isoformat().replace("+00:00", "Z")
    return {**result, "spec": {**result["spec"], **spec}, "status": {"conditions": rows}}


def _blocking_result(live: Object, seconds: float = 10.0, *pods: Object) -> Any:
    cluster: Any = Cluster(seconds, *pods)
    return HookRuns(cluster, cluster, deadline_seconds=600.0).blocking_result("env-a", HOOK, live)


def test_a_complete_hook_holds_nothing() -> None:
    """However long it took."""
    assert _blocking_result(_live("Complete"), 10_000.0) is None


def test_a_failed_hook_is_named_with_its_reason() -> None:
    """And with the message of its pods."""
    result = _blocking_result(_live("Failed"), 10.0, POD)
    assert result.failed
    assert result.condition.reason == "HookFailed"
    assert "hook Job/migrate failed: backoff limit" in result.condition.message
    assert "no such image" in result.condition.message


@pytest.mark.parametrize(
    ("phase", "reason"),
    [("Pending", "HookRunning"), ("Running", "HookRunning"), ("Failed", "HookFailed")],
)
def test_a_hook_that_is_a_pod_has_to_end(phase: str, reason: str) -> None:
    """One that is ready would do for a workload, not for a hook."""
    pod = written.make_object("v1", "Pod", "migrate", spec=written.pod_spec())
    pod["metadata"]["creationTimestamp"] = MADE.isoformat().replace("+00:00", "Z")
    member = Member(ALLOWED_KINDS["", "Pod"].gvr, Stage.WORKLOADS, pod)
    ready = [{"type": "Ready", "status": "True" if phase == "Running" else "False"}]
    cluster: Any = Cluster(10.0)
    runs = HookRuns(cluster, cluster, deadline_seconds=600.0)
    result = runs.blocking_result(
        "env-a", member, {**pod, "status": {"phase": phase, "conditions": ready}}
    )
    assert result is not None
    assert result.condition.reason == reason
    assert runs.blocking_result("env-a", member, {**pod, "status": {"phase": "Succeeded"}}) is None


def test_other_kinds_are_done_once_they_are_there() -> None:
    """As helm has it, also a workload that is not ready yet."""
    member = Member(ALLOWED_KINDS["apps", "Deployment"].gvr, Stage.WORKLOADS, written.deployment())
    cluster: Any = Cluster(10.0)
    runs = HookRuns(cluster, cluster, deadline_seconds=600.0)
    assert runs.blocking_result("env-a", member, written.deployment()) is None


@pytest.mark.parametrize(
    ("seconds", "spec", "reason"),
    [
        (10.0, {}, "HookRunning"),
        (601.0, {}, "HookFailed"),
        (601.0, {"activeDeadlineSeconds": 3600}, "HookRunning"),
        (601.0, {"activeDeadlineSeconds": 60}, "HookFailed"),
    ],
)
def test_a_hook_may_run_as_long_as_a_rollout(
    seconds: float, spec: dict[str, Any], reason: str
) -> None:
    """Or longer, if it sets a deadline; the next reconcile is no later than that."""
    result = _blocking_result(_live(**spec), seconds)
    assert result.condition.reason == reason
    assert result.failed == (reason == "HookFailed")
    if reason == "HookRunning":
        assert result.requeue_after == pytest.approx(
            max(600, spec.get("activeDeadlineSeconds", 0)) - seconds
        )
