"""Why a rollout does not progress, read from its pods."""

from __future__ import annotations

import pytest

from windlass.environments.apply import readiness
from windlass.objects.names import Object

CRASHED = {"terminated": {"exitCode": 3, "reason": "Error"}}
LOOPING = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": CRASHED}
KILLED = {
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
}
PULLING = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}
NO_NODE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}


def _pod(
    *containers: Object,
    name: str = "web-1",
    init: tuple[Object, ...] = (),
    conditions: tuple[Object, ...] = (),
    **metadata: object,
) -> Object:
    return {
        "metadata": {"name": name, **metadata},
        "status": {
            "conditions": list(conditions),
            "initContainerStatuses": [{"name": "init", **row} for row in init],
            "containerStatuses": [{"name": "app", **row} for row in containers],
        },
    }


def _unstartable(text: str) -> Object:
    return {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": text}}}


@pytest.mark.scenario("E74")
@pytest.mark.parametrize(
    ("pod", "reason", "words"),
    [
        (_pod(PULLING), "ImagePullFailed", "pod web-1, container app: not found"),
        (_pod(init=(PULLING,)), "ImagePullFailed", "container init: not found"),
        (_pod(LOOPING), "CrashLooping", "is crash looping, last exit code 3"),
        (_pod({"state": CRASHED}), "CrashLooping", "exited with code 3"),
        (
            _pod({"state": {"running": {}}, "lastState": CRASHED}),
            "CrashLooping",
            "is crash looping, last exit code 3",
        ),
        (_pod(KILLED), "OutOfMemory", "raise its memory limit"),
        (
            _pod(
                {
                    "state": {
                        "waiting": {"reason": "CreateContainerConfigError", "message": "no key"}
                    }
                }
            ),
            "RolloutStuck",
            "no key",
        ),
        (_pod(_unstartable("image has non-numeric user (web)")), "RolloutStuck", "runAsUser"),
        (_pod(_unstartable("image has non-numeric user (web)")), "RolloutStuck", "baseline"),
        (_pod(_unstartable("image will run as root")), "RolloutStuck", "podSecurity: baseline"),
        (_pod(PULLING), "ImagePullFailed", "check the image name and tag"),
        (_pod(conditions=(NO_NODE,)), "Unschedulable", "0/3"),
    ],
)
def test_each_cause_has_its_reason(pod: Object, reason: str, words: str) -> None:
    """With the message of the component that reports it."""
    trouble = readiness.worst_pod_problem([pod])
    assert trouble is not None
    assert trouble.reason == reason
    assert words in trouble.message
    assert trouble.may_heal is (reason == "Unschedulable")


def test_the_remedy_of_an_untrusted_environment_is_the_administrator() -> None:
    """The Pod Security level of the Project has no effect there."""
    pod = _pod(_unstartable("image will run as root"))
    trouble = readiness.worst_pod_problem([pod], trusted=False)
    assert trouble is not None
    assert "ask the administrator for --environments-untrusted-pod-security" in trouble.message
    assert "in the Project" not in trouble.message


def test_the_worst_cause_is_reported() -> None:
    """One message names one cause, whatever order the pods come in."""
    pods = [_pod(conditions=(NO_NODE,)), _pod(LOOPING), _pod(PULLING), _pod(KILLED)]
    for order in (pods, pods[::-1]):
        trouble = readiness.worst_pod_problem(order)
        assert trouble is not None
        assert trouble.reason == "ImagePullFailed"


@pytest.mark.parametrize(
    "pod",
    [
        _pod({"state": {"running": {}}}),
        _pod({"state": {"waiting": {"reason": "ContainerCreating"}}}),
        _pod({"ready": True, "state": {"running": {}}, "lastState": CRASHED}),
        _pod(
            init=({"ready": True, "state": {"terminated": {"exitCode": 0}}, "lastState": CRASHED},)
        ),
        _pod({"state": {"terminated": {"exitCode": 0}}}),
        _pod(
            {"state": {"terminated": {"exitCode": 143}}}, deletionTimestamp="2026-01-01T00:00:00Z"
        ),
        {"metadata": {"name": "new"}},
    ],
)
def test_healthy_pods_report_no_problem(pod: Object) -> None:
    """A start, a requested deletion, and a failure that recovered."""
    assert readiness.worst_pod_problem([pod]) is None


def test_long_messages_are_cut() -> None:
    """A registry may answer with a page."""
    waiting = {"reason": "ErrImagePull", "message": "x" * 10_000}
    trouble = readiness.worst_pod_problem([_pod({"state": {"waiting": waiting}})])
    assert trouble is not None
    assert len(trouble.message) < 600


@pytest.mark.parametrize(
    ("owner", "labels", "workload"),
    [
        (("ReplicaSet", "web-7d9f"), {"pod-template-hash": "7d9f"}, ("Deployment", "web")),
        (("StatefulSet", "db"), {}, ("StatefulSet", "db")),
        (("Job", "once"), {}, ("Job", "once")),
        (None, {}, ("Pod", "p")),
    ],
)
def test_pods_are_assigned_to_their_workload(
    owner: tuple[str, str] | None, labels: dict[str, str], workload: tuple[str, str]
) -> None:
    """So a Job that was repeated, or one of a CronJob, explains no other workload."""
    rows = [] if owner is None else [{"controller": True, "kind": owner[0], "name": owner[1]}]
    pod = _pod(LOOPING, name="p", ownerReferences=rows, labels=labels)
    assert list(readiness.pods_of_workloads([pod], {workload})) == [pod]
    assert list(readiness.pods_of_workloads([pod], {("Deployment", "other")})) == []
