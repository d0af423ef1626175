"""Whether a revision that was ready is being replaced, or is degraded."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.environments import manifests as written
from windlass.environments.apply import rollout
from windlass.environments.apply.apply_progress import ApplyMemory
from windlass.environments.apply.rollout import RolloutTracker
from windlass.environments.inventory import ReleaseState
from windlass.environments.step import StepResult
from windlass.objects.names import GVR, Object
from windlass.objects.resources import PODS

_NO_NODE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}
_CRASHED = {"name": "app", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
_QUOTA = "pods is forbidden: exceeded quota: default-quota"
_LEVEL = "violates PodSecurity restricted:latest"


def _deployment(refusal: str = "") -> Object:
    """A live Deployment without any pod of its revision."""
    rows = [{"type": "ReplicaFailure", "status": "True", "message": refusal}] if refusal else []
    live = written.deployment()
    live["metadata"]["generation"] = 1
    return {**live, "status": {"observedGeneration": 1, "conditions": rows}}


def _pod(**status: Any) -> Object:
    owner = {"kind": "ReplicaSet", "name": "web-7d9f", "controller": True}
    labels = {"pod-template-hash": "7d9f"}
    return {
        "metadata": {"name": "web-7d9f-x", "labels": labels, "ownerReferences": [owner]},
        "status": status,
    }


class _Cluster:
    """The Deployment, its pods, and the monotonic time."""

    def __init__(self, live: Object, *pods: Object) -> None:
        self._live, self._pods = live, pods
        self.seconds = 1000.0

    def get(self, *_: object) -> Object:
        return self._live

    def list_objects(self, gvr: GVR, _: str) -> tuple[Object, ...]:
        assert gvr == PODS
        return self._pods

    def release_state(self, _: str) -> ReleaseState:
        return ReleaseState()

    def monotonic(self) -> float:
        return self.seconds


def _results(live: Object, *pods: Object) -> list[StepResult]:
    """The results at once and after the time in which an object may be replaced."""
    cluster: Any = _Cluster(live, *pods)
    tracker = RolloutTracker(cluster, cluster, cluster, deadline_seconds=600.0)
    bundle, memory = written.build_bundle([written.deployment()]), ApplyMemory()
    results = []
    for _ in range(2):
        results.append(tracker.check("env-a", bundle, 0.0, memory, was_ready=True).result)
        cluster.seconds += rollout.REPLACING_SECONDS
    return results


@pytest.mark.parametrize(
    ("live", "pods", "reason"),
    [
        (_deployment(), (), "RolloutProgressing"),
        (_deployment(_QUOTA), (), "QuotaExceeded"),
        (_deployment(), (_pod(conditions=[_NO_NODE]),), "Unschedulable"),
        (_deployment(_QUOTA), (_pod(conditions=[_NO_NODE]),), "QuotaExceeded"),
    ],
    ids=["starting", "quota", "node", "both"],
)
def test_what_a_terminating_pod_still_takes_is_waited_for(
    live: Object, pods: tuple[Object, ...], reason: str
) -> None:
    """The quota and the node have room once it is gone; if not, it is degraded after all."""
    first, later = _results(live, *pods)
    condition = first.condition
    assert (condition.status, condition.reason) == ("Unknown", "RolloutProgressing")
    assert not first.failed
    assert first.requeue_after == rollout.REPLACING_SECONDS
    assert (later.condition.status, later.condition.reason) == ("False", reason)


@pytest.mark.parametrize(
    ("live", "pods"),
    [
        (_deployment(_LEVEL), ()),
        (_deployment(), (_pod(containerStatuses=[_CRASHED]),)),
        (_deployment(_QUOTA), (_pod(containerStatuses=[_CRASHED]),)),
    ],
    ids=["level", "crash", "crash beside quota"],
)
def test_what_waiting_does_not_resolve_is_degraded_at_once(
    live: Object, pods: tuple[Object, ...]
) -> None:
    """Whatever else may be on its way."""
    assert [result.condition.status for result in _results(live, *pods)] == ["False", "False"]
