"""Readiness of an applied object, and the reason why its pods do not start.

| Kind | Ready | Failed |
|---|---|---|
| Deployment | all replicas updated and available, no old one | past its deadline, no pod allowed |
| StatefulSet | exactly its replicas ready, of the update revision down to the partition | - |
| ReplicationController | exactly its replicas ready | no pod allowed |
| DaemonSet | all desired pods updated and available | - |
| Job | complete | failed |
| PersistentVolumeClaim | bound, or pending where its class waits for the first pod | lost |
| Pod | ready, or succeeded | failed |
| others | they exist | - |

A state counts only once its controller has observed the desired generation. Pods that quota or
Pod Security refuse fail a Deployment at once if no pod of its revision exists; else, and for any
other refusal, the deadline decides, because it may pass. The API server's own text is shown only
for those two and for a LimitRange: other texts may repeat parts of the pod.

| Pod reports | Reason | Waits |
|---|---|---|
| image cannot be pulled | ImagePullFailed | until the deadline |
| container crashes repeatedly | CrashLooping | until the deadline |
| container was OOM killed | OutOfMemory | until the deadline |
| container cannot be created | RolloutStuck | until the deadline |
| no node accepts the pod | Unschedulable | for ever; a node may be added |

The worst problem of all pods is reported, so that one sentence names one cause. Terminating
pods do not count, nor do containers that are ready now, whatever happened to them before.

Called by `rollout` and `hook_runs`.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from windlass.objects.names import Object, format_count

State = Literal["ready", "progressing", "failed"]


@dataclass(frozen=True, slots=True)
class Readiness:
    """The state of one object; `reason` is set if it failed, as the reason of a condition."""

    state: State
    message: str = ""
    reason: str = ""


READY = Readiness("ready")

_ABOVE_LIMIT_RANGE = re.compile(r"maximum [a-z-]+ usage per (Container|Pod) is")
"""Text of the API server for a pod that exceeds a LimitRange; there is no code for it."""

_UNKNOWN_REFUSAL = "the API server rejects its pods; see the Events of the namespace"


def object_readiness(obj: Object, *, waits_for_a_pod: bool = False) -> Readiness:
    """The readiness of a live object; `waits_for_a_pod` if the class of a claim binds late."""
    if not _is_observed(obj):
        return _not_observed(obj)
    if obj.get("kind") == "PersistentVolumeClaim":
        return _claim(obj, waits_for_a_pod=waits_for_a_pod)
    check = _CHECKS.get(str(obj.get("kind")))
    return check(obj) if check is not None else READY


def _not_observed(obj: Object) -> Readiness:
    generation = obj["metadata"].get("generation") or 0
    return Readiness("progressing", f"waiting for observedGeneration {generation}")


def _is_observed(obj: Object) -> bool:
    observed = (obj.get("status") or {}).get("observedGeneration")
    return observed is None or int(observed) >= int(obj["metadata"].get("generation") or 0)


def _deployment(obj: Object) -> Readiness:
    status, desired = obj.get("status") or {}, _replicas(obj)
    if "observedGeneration" not in status:
        return _not_observed(obj)
    updated = _count(status, "updatedReplicas")
    lag = _deployment_lag(status, desired, updated)
    if not lag:
        return READY
    # Its own progressDeadlineSeconds has passed.
    is_late = _condition(obj, "Progressing").get("status") == "False"
    refusal = _condition(obj, "ReplicaFailure")
    if refusal.get("status") == "True":
        return _pods_refused(
            str(refusal.get("message", "")), is_first=updated == 0, is_late=is_late
        )
    if is_late:
        return Readiness("failed", f"{lag}; progressDeadlineSeconds exceeded", "RolloutStuck")
    return Readiness("progressing", lag)


def _deployment_lag(status: Object, desired: int, updated: int) -> str:
    """What a Deployment still lacks, as text; empty if nothing."""
    total, available = _count(status, "replicas"), _count(status, "availableReplicas")
    if updated < desired:
        return f"{updated} of {desired} pods updated"
    if total > updated:
        return f"{format_count(total - updated, 'old pod')} terminating"
    return f"{available} of {desired} pods available" if available < desired else ""


def _stateful_set(obj: Object) -> Readiness:
    status, desired = obj.get("status") or {}, _replicas(obj)
    if "observedGeneration" not in status:
        return _not_observed(obj)
    ready = _count(status, "readyReplicas")
    if ready < desired:
        return Readiness("progressing", f"{ready} of {desired} pods ready")
    if _count(status, "replicas") > desired:
        over = _count(status, "replicas") - desired
        return Readiness("progressing", f"{format_count(over, 'surplus pod')} terminating")
    rolling = ((obj.get("spec") or {}).get("updateStrategy") or {}).get("rollingUpdate") or {}
    # Pods below the partition keep the old revision on purpose.
    due = desired - int(rolling.get("partition") or 0)
    updated = _count(status, "updatedReplicas")
    if status.get("currentRevision") != status.get("updateRevision") and updated < due:
        return Readiness("progressing", f"{updated} of {due} pods updated")
    return READY


def _replication_controller(obj: Object) -> Readiness:
    """All its pods are of one revision, because it is recreated for another template."""
    status, desired = obj.get("status") or {}, _replicas(obj)
    if "observedGeneration" not in status:
        return _not_observed(obj)
    ready, existing = _count(status, "readyReplicas"), _count(status, "replicas")
    if ready == existing == desired:
        return READY
    refusal = _condition(obj, "ReplicaFailure")
    if refusal.get("status") == "True":
        return _pods_refused(str(refusal.get("message", "")), is_first=existing == 0, is_late=False)
    return Readiness("progressing", f"{ready} of {desired} pods ready")


def _daemon_set(obj: Object) -> Readiness:
    status = obj.get("status") or {}
    if "observedGeneration" not in status:
        return _not_observed(obj)
    desired = _count(status, "desiredNumberScheduled")
    done = min(_count(status, "updatedNumberScheduled"), _count(status, "numberAvailable"))
    if done < desired:
        return Readiness("progressing", f"{done} of {desired} pods available")
    return READY


def _job(obj: Object) -> Readiness:
    if _condition(obj, "Complete").get("status") == "True":
        return READY
    failed = _condition(obj, "Failed")
    if failed.get("status") == "True":
        return Readiness("failed", str(failed.get("message", "")), "RolloutStuck")
    return Readiness("progressing", "running")


def _claim(obj: Object, *, waits_for_a_pod: bool) -> Readiness:
    phase = (obj.get("status") or {}).get("phase")
    if phase == "Lost":
        return Readiness(
            "failed", "its volume is lost; delete the claim to create a new one", "RolloutStuck"
        )
    if phase == "Bound" or waits_for_a_pod:
        return READY
    return Readiness("progressing", "no volume bound yet; check the StorageClass")


def _pod(obj: Object) -> Readiness:
    phase = (obj.get("status") or {}).get("phase")
    if phase == "Succeeded" or _condition(obj, "Ready").get("status") == "True":
        return READY
    if phase == "Failed":
        return Readiness("failed", _pod_failure(obj["status"]), "CrashLooping")
    return Readiness("progressing", "not ready")


def _pod_failure(status: Object) -> str:
    """Why a pod failed, by the kubelet; its containers have the exit codes."""
    texts = [str(status[name]) for name in ("reason", "message") if status.get(name)]
    return _cut(": ".join(texts)) or "exited with an error"


_CHECKS = {
    "Deployment": _deployment,
    "StatefulSet": _stateful_set,
    "ReplicationController": _replication_controller,
    "DaemonSet": _daemon_set,
    "Job": _job,
    "Pod": _pod,
}


def _pods_refused(text: str, *, is_first: bool, is_late: bool) -> Readiness:
    """The readiness of a workload whose pods the API server refuses to create."""
    reason = _reason_of(text)
    state: State = "failed" if is_late or (is_first and reason) else "progressing"
    return Readiness(state, text if reason else _UNKNOWN_REFUSAL, reason or "RolloutStuck")


def _reason_of(text: str) -> str:
    """The reason for a refusal of pods, by the text of the API server; empty if unknown."""
    if "exceeded quota" in text or "failed quota" in text:
        return "QuotaExceeded"
    if "violates PodSecurity" in text:
        return "PodSecurityDenied"
    return "LimitAboveMaximum" if exceeds_limit_range(text) else ""


def exceeds_limit_range(text: str) -> bool:
    """Whether the API server refuses a pod for the maximum of a LimitRange."""
    return _ABOVE_LIMIT_RANGE.search(text) is not None


def _replicas(obj: Object) -> int:
    replicas = (obj.get("spec") or {}).get("replicas")
    return 1 if replicas is None else int(replicas)


def _count(status: Object, name: str) -> int:
    return int(status.get(name) or 0)


def _condition(obj: Object, kind: str) -> Object:
    rows = (obj.get("status") or {}).get("conditions") or []
    return next((row for row in rows if row.get("type") == kind), {})


_PULL_ERRORS = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_USER_REMEDIES = {
    "non-numeric user": "set securityContext.runAsUser to the number of that user (or USER in "
    "the image)",
    "image will run as root": "set securityContext.runAsUser to a user that the image can run as",
}
"""Texts of the kubelet about an image whose user is not allowed, and the remedy for each."""

_PULL_REMEDY = "check the image name and tag, and that the registry allows anonymous pulls"
_MAX_CHARS = 400
_CREATE_ERRORS = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)
_ORDER = (
    "ImagePullFailed",
    "OutOfMemory",
    "CrashLooping",
    "RolloutStuck",
    "Unschedulable",
)


@dataclass(frozen=True, slots=True)
class PodProblem:
    """One cause why a pod is not ready, with the text of the kubelet or the scheduler."""

    reason: str
    message: str

    @property
    def may_heal(self) -> bool:
        """Whether waiting may help."""
        return self.reason == "Unschedulable"


def worst_pod_problem(pods: Iterable[Object], *, trusted: bool = True) -> PodProblem | None:
    """The worst problem of some pods by `_ORDER`; None without any.

    `trusted` is the trust of their Environment, for the remedy.
    """
    problems = [problem for pod in pods for problem in _pod_problems(pod, trusted=trusted)]
    return min(problems, key=lambda problem: _ORDER.index(problem.reason), default=None)


def pods_of_workloads(
    pods: Iterable[Object], workloads: Container[tuple[str, str]]
) -> Iterator[Object]:
    """The pods that belong to some workloads, given by kind and name; also Pods themselves."""
    for pod in pods:
        if _workload_of(pod) in workloads:
            yield pod


def _workload_of(pod: Object) -> tuple[str, str]:
    metadata = pod["metadata"]
    rows = metadata.get("ownerReferences") or []
    row = next((row for row in rows if row.get("controller")), None)
    if row is None:
        return "Pod", metadata["name"]
    if row["kind"] != "ReplicaSet":
        return row["kind"], row["name"]
    # The name of a ReplicaSet is that of its Deployment and the hash in the label of its pods.
    suffix = (metadata.get("labels") or {}).get("pod-template-hash", "")
    return "Deployment", row["name"].removesuffix(f"-{suffix}")


def _pod_problems(pod: Object, *, trusted: bool) -> Iterator[PodProblem]:
    """The problems of one pod, unless it is terminating."""
    name = pod["metadata"]["name"]
    if pod["metadata"].get("deletionTimestamp"):
        return
    status = pod.get("status") or {}
    for row in status.get("conditions") or []:
        if row.get("type") == "PodScheduled" and row.get("reason") == "Unschedulable":
            yield PodProblem("Unschedulable", f"pod {name}: {_cut(row.get('message') or '')}")
    for group in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(group) or []:
            if not container.get("ready"):
                yield from _container_problems(
                    f"pod {name}, container {container.get('name')}", container, trusted=trusted
                )


def _container_problems(where: str, container: Object, *, trusted: bool) -> Iterator[PodProblem]:
    """The problems of one container that is not ready; `where` names pod and container."""
    waiting = (container.get("state") or {}).get("waiting") or {}
    terminated = (container.get("lastState") or {}).get("terminated") or (
        container.get("state") or {}
    ).get("terminated")
    reason, text = waiting.get("reason") or "", waiting.get("message") or ""
    if reason in _PULL_ERRORS:
        yield PodProblem("ImagePullFailed", f"{where}: {_cut(text or reason)}; {_PULL_REMEDY}")
    if reason in _CREATE_ERRORS:
        remedy = _remedy(text, trusted=trusted)
        yield PodProblem("RolloutStuck", f"{where}: {_cut(text or reason)}{remedy}")
    if terminated and terminated.get("reason") == "OOMKilled":
        yield PodProblem("OutOfMemory", f"{where} was OOM killed; raise its memory limit")
    elif reason == "CrashLoopBackOff" or (terminated and terminated.get("exitCode")):
        yield PodProblem("CrashLooping", f"{where} {_exit_text(container, terminated or {})}")


def _exit_text(container: Object, terminated: Object) -> str:
    code = terminated.get("exitCode", "unknown")
    state, last_state = container.get("state") or {}, container.get("lastState") or {}
    # Not by the waiting reason alone: a container that restarts is running in between, and its
    # text must not change with each restart.
    if state.get("terminated") and not last_state.get("terminated"):
        return f"exited with code {code}"
    return f"is crash looping, last exit code {code}"


def _remedy(text: str, *, trusted: bool) -> str:
    """The remedy for an image that the Pod Security level restricted does not allow."""
    for phrase, remedy in _USER_REMEDIES.items():
        if phrase in text:
            return f"; {remedy}, {baseline_remedy(trusted=trusted)}"
    return ""


def baseline_remedy(*, trusted: bool) -> str:
    """How the namespace of an Environment gets the Pod Security level baseline."""
    if trusted:
        return "or set spec.security.podSecurity: baseline in the Project"
    return (
        "or ask the administrator for --environments-untrusted-pod-security=baseline, as the "
        "Environment is untrusted"
    )


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"
