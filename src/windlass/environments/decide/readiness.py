"""Whether an applied object has become what it should be.

| Kind | Ready | Failed |
|---|---|---|
| Deployment | all replicas updated and available, no old one | past its deadline, no pod allowed |
| StatefulSet | exactly its replicas ready, of the update revision down to the partition | - |
| ReplicationController | exactly its replicas ready | no pod allowed |
| DaemonSet | all wanted pods updated and available | - |
| Job | complete | failed |
| PersistentVolumeClaim | bound, or pending where its class waits for the first pod | lost |
| Pod | ready, or ended well | failed |
| others | they exist | - |

A state is believed only once its controller has looked at the wished generation. Pods that
quota or Pod Security refuse fail a Deployment at once if not one of its revision exists;
else, and for any other refusal, the deadline decides, for it may pass. The API server's own
words are shown for those and for a LimitRange alone: others may repeat parts of the pod.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from windlass.objects.names import Object

State = Literal["ready", "progressing", "failed"]


@dataclass(frozen=True, slots=True)
class Readiness:
    """How far one object is; `reason` is that of a condition where it failed."""

    state: State
    message: str = ""
    reason: str = ""


READY = Readiness("ready")

_UNSEEN = "its controller has not looked at it yet"
_EXCEEDING = re.compile(r"maximum [a-z-]+ usage per (Container|Pod) is")
"""How the API server says that a pod exceeds a LimitRange."""

_UNNAMED = "the API server refuses its pods; the events of its ReplicaSet say why"


def of(obj: Object, *, waits_for_a_pod: bool = False) -> Readiness:
    """The readiness of a live object; `waits_for_a_pod` is said of a claim's storage class."""
    if not _observed(obj):
        return Readiness("progressing", _UNSEEN)
    if obj.get("kind") == "PersistentVolumeClaim":
        return _claim(obj, waits_for_a_pod=waits_for_a_pod)
    judge = _JUDGES.get(str(obj.get("kind")))
    return judge(obj) if judge is not None else READY


def _observed(obj: Object) -> bool:
    seen = (obj.get("status") or {}).get("observedGeneration")
    return seen is None or int(seen) >= int(obj["metadata"].get("generation") or 0)


def _deployment(obj: Object) -> Readiness:
    status, wanted = obj.get("status") or {}, _replicas(obj)
    if "observedGeneration" not in status:
        return Readiness("progressing", _UNSEEN)
    updated = _count(status, "updatedReplicas")
    behind = _behind(status, wanted, updated)
    if not behind:
        return READY
    is_late = _condition(obj, "Progressing").get("status") == "False"
    refusal = _condition(obj, "ReplicaFailure")
    if refusal.get("status") == "True":
        return _refused(str(refusal.get("message", "")), is_first=updated == 0, is_late=is_late)
    if is_late:
        return Readiness("failed", f"{behind}, past its own deadline", "RolloutStuck")
    return Readiness("progressing", behind)


def _behind(status: Object, wanted: int, updated: int) -> str:
    """What a Deployment still lacks; empty if nothing."""
    everything, available = _count(status, "replicas"), _count(status, "availableReplicas")
    if updated < wanted:
        return f"{updated} of {wanted} pods are of this revision"
    if everything > updated:
        return f"{everything - updated} pods of the revision before still end"
    return f"{available} of {wanted} pods are available" if available < wanted else ""


def _stateful_set(obj: Object) -> Readiness:
    status, wanted = obj.get("status") or {}, _replicas(obj)
    if "observedGeneration" not in status:
        return Readiness("progressing", _UNSEEN)
    ready = _count(status, "readyReplicas")
    if ready < wanted:
        return Readiness("progressing", f"{ready} of {wanted} pods are ready")
    if _count(status, "replicas") > wanted:
        over = _count(status, "replicas") - wanted
        return Readiness("progressing", f"{over} pods too many still end")
    rolling = ((obj.get("spec") or {}).get("updateStrategy") or {}).get("rollingUpdate") or {}
    due = wanted - int(rolling.get("partition") or 0)
    updated = _count(status, "updatedReplicas")
    if status.get("currentRevision") != status.get("updateRevision") and updated < due:
        return Readiness("progressing", f"{updated} of {due} pods are of this revision")
    return READY


def _replication_controller(obj: Object) -> Readiness:
    """Its pods are all of one revision: with another template it is made anew."""
    status, wanted = obj.get("status") or {}, _replicas(obj)
    if "observedGeneration" not in status:
        return Readiness("progressing", _UNSEEN)
    ready, there = _count(status, "readyReplicas"), _count(status, "replicas")
    if ready == there == wanted:
        return READY
    refusal = _condition(obj, "ReplicaFailure")
    if refusal.get("status") == "True":
        return _refused(str(refusal.get("message", "")), is_first=there == 0, is_late=False)
    return Readiness("progressing", f"{ready} of {wanted} pods ready")


def _daemon_set(obj: Object) -> Readiness:
    status = obj.get("status") or {}
    if "observedGeneration" not in status:
        return Readiness("progressing", _UNSEEN)
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


def _claim(obj: Object, *, waits_for_a_pod: bool) -> Readiness:
    phase = (obj.get("status") or {}).get("phase")
    if phase == "Lost":
        return Readiness("failed", "its volume is gone", "RolloutStuck")
    if phase == "Bound" or waits_for_a_pod:
        return READY
    return Readiness("progressing", "it has no volume yet; is there a storage class for it?")


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
    "ReplicationController": _replication_controller,
    "DaemonSet": _daemon_set,
    "Job": _job,
    "Pod": _pod,
}


def _refused(text: str, *, is_first: bool, is_late: bool) -> Readiness:
    """That pods could not be made."""
    reason = _reason_of(text)
    state: State = "failed" if is_late or (is_first and reason) else "progressing"
    return Readiness(state, text if reason else _UNNAMED, reason or "RolloutStuck")


def _reason_of(text: str) -> str:
    """Why no pod could be made: the API server says it in words only."""
    if "exceeded quota" in text or "failed quota" in text:
        return "QuotaExceeded"
    if "violates PodSecurity" in text:
        return "PodSecurityDenied"
    return "LimitAboveMaximum" if exceeds_limit_range(text) else ""


def exceeds_limit_range(text: str) -> bool:
    """Whether the API server refuses a pod for the maximum of a LimitRange."""
    return _EXCEEDING.search(text) is not None


def _replicas(obj: Object) -> int:
    wanted = (obj.get("spec") or {}).get("replicas")
    return 1 if wanted is None else int(wanted)


def _count(status: Object, name: str) -> int:
    return int(status.get(name) or 0)


def _condition(obj: Object, kind: str) -> Object:
    rows = (obj.get("status") or {}).get("conditions") or []
    return next((row for row in rows if row.get("type") == kind), {})
