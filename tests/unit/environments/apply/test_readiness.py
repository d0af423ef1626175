"""Readiness of applied objects."""

from __future__ import annotations

import pytest

from windlass.environments.apply import readiness
from windlass.environments.apply.readiness import Readiness
from windlass.objects.names import JSON, Object

QUOTA = 'pods "web-1" is forbidden: exceeded quota: default-quota, requested: pods=1'
SECURITY = 'pods "web-1" is forbidden: violates PodSecurity "restricted:latest": privileged'
OTHER = 'pods "web-1" is forbidden: the plain PASSWORD=hunter2 is not liked'


def _live(
    kind: str, status: Object, *, generation: int = 2, seen: int | None = 2, **spec: JSON
) -> Object:
    observed = {} if seen is None else {"observedGeneration": seen}
    return {
        "kind": kind,
        "metadata": {"name": "web", "generation": generation},
        "spec": spec,
        "status": {**observed, **status},
    }


def _condition(kind: str, status: str, message: str = "") -> Object:
    return {"type": kind, "status": status, "message": message}


def _deployment(updated: int, available: int, total: int, *rows: Object) -> Readiness:
    status = {
        "updatedReplicas": updated,
        "availableReplicas": available,
        "replicas": total,
        "conditions": list(rows),
    }
    return readiness.object_readiness(_live("Deployment", status, replicas=2))


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
@pytest.mark.parametrize("seen", [1, None])
def test_a_state_of_an_older_generation_is_not_believed(kind: str, seen: int | None) -> None:
    """Else the pods of the revision before would count for this one."""
    done = {"updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1, "replicas": 1}
    assert (
        readiness.object_readiness(_live(kind, done, seen=seen, replicas=1)).state == "progressing"
    )
    assert readiness.object_readiness(_live(kind, done, replicas=1)).state == "ready"


@pytest.mark.scenario("E73")
@pytest.mark.parametrize(
    ("updated", "available", "total"), [(0, 2, 2), (1, 2, 3), (2, 2, 3), (2, 1, 2), (0, 0, 0)]
)
def test_an_old_pod_that_is_ready_makes_nothing_ready(
    updated: int, available: int, total: int
) -> None:
    """A Deployment is ready when all its pods are of this revision, available and alone."""
    assert _deployment(updated, available, total).state == "progressing"
    assert _deployment(2, 2, 2) == readiness.READY


@pytest.mark.scenario("E74")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (QUOTA, "QuotaExceeded"),
        (SECURITY, "PodSecurityDenied"),
        (
            "pods is forbidden: maximum ephemeral-storage usage per Container is 1Gi, but limit "
            "is 2Gi",
            "LimitAboveMaximum",
        ),
    ],
)
def test_pods_that_are_not_allowed_fail_at_once_if_there_is_none(text: str, reason: str) -> None:
    """With one of the revision there, the deadline decides: room may become free."""
    refusal = _condition("ReplicaFailure", "True", text)
    assert _deployment(0, 0, 1, refusal) == Readiness("failed", text, reason)
    assert _deployment(1, 1, 1, refusal) == Readiness("progressing", text, reason)
    late = _condition("Progressing", "False", "timed out")
    assert _deployment(1, 1, 1, refusal, late) == Readiness("failed", text, reason)


def test_another_refusal_is_retried_and_its_text_not_reported() -> None:
    """A missing ServiceAccount, a webhook that is down; the text may contain anything."""
    refusal = _condition("ReplicaFailure", "True", OTHER)
    early = _deployment(0, 0, 0, refusal)
    late = _deployment(0, 0, 0, refusal, _condition("Progressing", "False"))
    assert (early.state, late.state, late.reason) == ("progressing", "failed", "RolloutStuck")
    assert "hunter2" not in early.message + late.message


def test_a_deployment_past_its_deadline_is_stuck() -> None:
    """Its condition reports that it does not progress, and what is missing."""
    late = _condition("Progressing", "False", "timed out")
    result = _deployment(2, 1, 2, late)
    assert (result.state, result.reason) == ("failed", "RolloutStuck")
    assert result.message.startswith("1 of 2 pods available")


def test_a_complete_rollout_is_ready_despite_old_conditions() -> None:
    """A condition that is left over does not count against pods that run."""
    stale = (_condition("ReplicaFailure", "True", QUOTA), _condition("Progressing", "False"))
    assert _deployment(2, 2, 2, *stale) == readiness.READY


def test_no_replicas_are_ready_at_once() -> None:
    """A Deployment that is scaled to nothing."""
    assert readiness.object_readiness(_live("Deployment", {}, replicas=0)) == readiness.READY


@pytest.mark.scenario("E73")
@pytest.mark.parametrize(
    ("status", "partition", "state"),
    [
        ({"replicas": 3, "readyReplicas": 3, "updatedReplicas": 3}, 0, "ready"),
        ({"replicas": 3, "readyReplicas": 2, "updatedReplicas": 3}, 0, "progressing"),
        ({"replicas": 3, "readyReplicas": 3, "updatedReplicas": 2}, 0, "progressing"),
        ({"replicas": 3, "readyReplicas": 3, "updatedReplicas": 2}, 1, "ready"),
        ({"replicas": 3, "readyReplicas": 3, "updatedReplicas": 0}, 5, "ready"),
        ({"replicas": 5, "readyReplicas": 5, "updatedReplicas": 5}, 0, "progressing"),
        ({}, 0, "progressing"),
    ],
)
def test_a_stateful_set_is_ready_down_to_its_partition(
    status: Object, partition: int, state: str
) -> None:
    """Exactly its replicas, all ready, those above the partition of the new revision."""
    strategy = {"rollingUpdate": {"partition": partition}}
    revisions = {"currentRevision": "a", "updateRevision": "b"}
    live = _live("StatefulSet", {**status, **revisions}, replicas=3, updateStrategy=strategy)
    assert readiness.object_readiness(live).state == state


def test_a_stateful_set_without_an_update_needs_no_updated_pods() -> None:
    """Current and update revision are one."""
    status = {"replicas": 1, "readyReplicas": 1, "currentRevision": "a", "updateRevision": "a"}
    assert readiness.object_readiness(_live("StatefulSet", status)) == readiness.READY


@pytest.mark.parametrize(
    ("updated", "available", "state"),
    [(3, 3, "ready"), (2, 3, "progressing"), (3, 2, "progressing")],
)
def test_a_daemon_set_is_ready_on_every_node(updated: int, available: int, state: str) -> None:
    """Its pods are of this revision and available."""
    status = {
        "desiredNumberScheduled": 3,
        "updatedNumberScheduled": updated,
        "numberAvailable": available,
    }
    assert readiness.object_readiness(_live("DaemonSet", status)).state == state


@pytest.mark.parametrize(
    ("ready", "there", "state"),
    [(2, 2, "ready"), (1, 2, "progressing"), (2, 3, "progressing"), (0, 0, "progressing")],
)
def test_a_replication_controller_is_ready_with_its_pods(
    ready: int, there: int, state: str
) -> None:
    """All of them, and no other."""
    obj = _live("ReplicationController", {"readyReplicas": ready, "replicas": there})
    obj["spec"] = {"replicas": 2}
    assert readiness.object_readiness(obj).state == state
    refusal = _condition("ReplicaFailure", "True", QUOTA)
    refused = _live("ReplicationController", {"replicas": there, "conditions": [refusal]})
    refused["spec"] = {"replicas": 5}
    result = readiness.object_readiness(refused)
    assert (result.state, result.reason) == ("progressing" if there else "failed", "QuotaExceeded")


@pytest.mark.parametrize(
    ("kind", "status", "state"),
    [
        ("Job", {}, "progressing"),
        ("Job", {"conditions": [_condition("Complete", "True")]}, "ready"),
        ("Job", {"conditions": [_condition("Complete", "False")]}, "progressing"),
        ("Job", {"conditions": [_condition("Failed", "True", "backoff limit")]}, "failed"),
        ("PersistentVolumeClaim", {"phase": "Bound"}, "ready"),
        ("PersistentVolumeClaim", {"phase": "Pending"}, "progressing"),
        ("PersistentVolumeClaim", {"phase": "Lost"}, "failed"),
        ("Pod", {"phase": "Running", "conditions": [_condition("Ready", "True")]}, "ready"),
        ("Pod", {"phase": "Running", "conditions": [_condition("Ready", "False")]}, "progressing"),
        ("Pod", {"phase": "Succeeded"}, "ready"),
        ("Pod", {"phase": "Failed"}, "failed"),
        ("Pod", {}, "progressing"),
        ("CronJob", {}, "ready"),
        ("Service", {}, "ready"),
        ("ConfigMap", {}, "ready"),
    ],
)
def test_other_kinds(kind: str, status: Object, state: str) -> None:
    """What needs no controller is ready once it is there."""
    assert readiness.object_readiness(_live(kind, status, seen=None)).state == state


def test_an_object_without_status_is_judged() -> None:
    """It was written a moment ago."""
    bare: Object = {"kind": "Deployment", "metadata": {"name": "web", "generation": 1}}
    assert readiness.object_readiness(bare).state == "progressing"


@pytest.mark.parametrize(
    ("phase", "state"), [("Pending", "ready"), ("Bound", "ready"), ("Lost", "failed")]
)
def test_a_claim_may_wait_for_its_first_pod(phase: str, state: str) -> None:
    """With WaitForFirstConsumer nothing binds it before."""
    live = _live("PersistentVolumeClaim", {"phase": phase}, seen=None)
    assert readiness.object_readiness(live, waits_for_a_pod=True).state == state


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"reason": "Evicted", "message": "The node was low on memory."}, "Evicted: The node was"),
        ({"reason": "DeadlineExceeded"}, "DeadlineExceeded"),
        ({}, "exited with an error"),
    ],
)
def test_a_failed_pod_reports_the_cause(status: Object, message: str) -> None:
    """Of the kubelet, where it was not a container that ended the pod."""
    pod = {"kind": "Pod", "metadata": {"name": "x"}, "status": {"phase": "Failed", **status}}
    assert readiness.object_readiness(pod).message.startswith(message)
