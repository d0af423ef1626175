"""Whether an applied object has become what it should be.

| Kind | Ready | Failed |
|---|---|---|
| Deployment | all replicas updated and available, no old one | past its deadline, pods refused |
| StatefulSet | all replicas ready and of the update revision, down to the partition | - |
| DaemonSet | all wanted pods updated and available | - |
| Job | complete | failed |
| PersistentVolumeClaim | bound, or its class waits for a first pod | lost |
| Pod | ready, or ended well | failed |
| others | they exist | - |

A state is believed only once its controller has looked at the wished generation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windlass.objects.json import Object

State = Literal["ready", "progressing", "failed"]


@dataclass(frozen=True, slots=True)
class Readiness:
    """How far one object is; `reason` is that of a condition where it failed."""

    state: State
    message: str = ""
    reason: str = ""


READY = Readiness("ready")


def of(obj: Object) -> Readiness:
    """The readiness of a live object."""
    if not _observed(obj):
        return Readiness("progressing", "its controller has not looked at it yet")
    judge = _JUDGES.get(str(obj.get("kind")))
    return judge(obj) if judge is not None else READY


def _observed(obj: Object) -> bool:
    seen = (obj.get("status") or {}).get("observedGeneration")
    return seen is None or int(seen) >= int(obj["metadata"].get("generation") or 0)


def _deployment(obj: Object) -> Readiness:
    status, wanted = obj.get("status") or {}, _replicas(obj)
    if "observedGeneration" not in status:
        return Readiness("progressing", "its controller has not looked at it yet")
    failure = _condition(obj, "ReplicaFailure")
    if failure.get("status") == "True":
        return Readiness("failed", str(failure.get("message", "")), _refusal_of_pods(failure))
    progressing = _condition(obj, "Progressing")
    if progressing.get("status") == "False":
        return Readiness("failed", str(progressing.get("message", "")), "RolloutStuck")
    updated, available = _count(status, "updatedReplicas"), _count(status, "availableReplicas")
    if updated < wanted:
        return Readiness("progressing", f"{updated} of {wanted} pods are of this revision")
    if _count(status, "replicas") > updated:
        old = _count(status, "replicas") - updated
        return Readiness("progressing", f"{old} pods of the revision before still end")
    if available < wanted:
        return Readiness("progressing", f"{available} of {wanted} pods are available")
    return READY


def _stateful_set(obj: Object) -> Readiness:
    status, wanted = obj.get("status") or {}, _replicas(obj)
    if "observedGeneration" not in status:
        return Readiness("progressing", "its controller has not looked at it yet")
    ready = _count(status, "readyReplicas")
    if ready < wanted:
        return Readiness("progressing", f"{ready} of {wanted} pods are ready")
    rolling = ((obj.get("spec") or {}).get("updateStrategy") or {}).get("rollingUpdate") or {}
    due = wanted - int(rolling.get("partition") or 0)
    updated = _count(status, "updatedReplicas")
    if status.get("currentRevision") != status.get("updateRevision") and updated < due:
        return Readiness("progressing", f"{updated} of {due} pods are of this revision")
    return READY


def _daemon_set(obj: Object) -> Readiness:
    status = obj.get("status") or {}
    if "observedGeneration" not in status:
        return Readiness("progressing", "its controller has not looked at it yet")
    wanted = _count(status, "desiredNumberScheduled")
    done = min(_count(status, "updatedNumberScheduled"), _count(status, "numberAvailable"))
    if done < wanted:
        return Readiness("progressing", f"{done} of {wanted} pods are available")
    return READY


def _job(obj: Object) -> Readiness:
    if _condition(obj, "Complete").get("status") == "True":
        return READY
    failed = _condition(obj, "Failed")
    if failed.get("status") == "True":
        return Readiness("failed", str(failed.get("message", "")), "RolloutStuck")
    return Readiness("progressing", "it runs")


def _claim(obj: Object) -> Readiness:
    phase = (obj.get("status") or {}).get("phase")
    if phase == "Lost":
        return Readiness("failed", "its volume is gone", "RolloutStuck")
    # Whether a pending claim waits for a provisioner or for its first pod, the pod tells.
    return READY


def _pod(obj: Object) -> Readiness:
    phase = (obj.get("status") or {}).get("phase")
    if phase == "Succeeded" or _condition(obj, "Ready").get("status") == "True":
        return READY
    if phase == "Failed":
        return Readiness("failed", "it ended with an error", "CrashLooping")
    return Readiness("progressing", "it is not ready yet")


_JUDGES = {
    "Deployment": _deployment,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
    "PersistentVolumeClaim": _claim,
    "Pod": _pod,
}


def _refusal_of_pods(failure: Object) -> str:
    """Why no pod could be made: the API server says it in words only."""
    text = str(failure.get("message", ""))
    if "exceeded quota" in text or "failed quota" in text:
        return "QuotaExceeded"
    return "PodSecurityDenied" if "violates PodSecurity" in text else "RolloutStuck"


def _replicas(obj: Object) -> int:
    wanted = (obj.get("spec") or {}).get("replicas")
    return 1 if wanted is None else int(wanted)


def _count(status: Object, name: str) -> int:
    return int(status.get(name) or 0)


def _condition(obj: Object, kind: str) -> Object:
    rows = (obj.get("status") or {}).get("conditions") or []
    return next((row for row in rows if row.get("type") == kind), {})
