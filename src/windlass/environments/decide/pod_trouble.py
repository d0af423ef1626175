"""Why a rollout does not move on, read from its pods.

| Pod says | Reason | Waits |
|---|---|---|
| image cannot be pulled | ImagePullFailed | until the deadline |
| container ends again and again | CrashLooping | until the deadline |
| container was killed for its memory | OutOfMemory | until the deadline |
| container cannot be created | RolloutStuck | until the deadline |
| no node takes the pod | Unschedulable | for ever; a node may come |

The worst of all pods speaks, so that one sentence names one cause. Pods that are on their
way out say nothing, nor do containers that are ready now, whatever happened to them before.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from windlass.objects.names import Object

_PULLING = frozenset(
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
_BASELINE = "or set spec.security.podSecurity: baseline in the Project"
_USERS = {
    "non-numeric user": "set securityContext.runAsUser to the number of that user (or USER in "
    f"the image), {_BASELINE}",
    "image will run as root": "set securityContext.runAsUser to a user that the image can run as, "
    f"{_BASELINE}",
}
"""What a kubelet says of an image whose user it may not run, and what helps."""

_UNPULLED = "check the name and tag of the image, and that the registry serves it to everybody"
_MOST_CHARS = 400
_CREATING = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_ORDER = (
    "ImagePullFailed",
    "OutOfMemory",
    "CrashLooping",
    "RolloutStuck",
    "Unschedulable",
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """One cause, with the words of whoever knows it."""

    reason: str
    message: str

    @property
    def passes(self) -> bool:
        """Whether waiting may help."""
        return self.reason == "Unschedulable"


def of(pods: Iterable[Object]) -> Trouble | None:
    """The worst trouble of some pods."""
    found = [trouble for pod in pods for trouble in _of_pod(pod)]
    return min(found, key=lambda trouble: _ORDER.index(trouble.reason), default=None)


def belonging(pods: Iterable[Object], owners: Container[tuple[str, str]]) -> Iterator[Object]:
    """The pods of some workloads, which are named by kind and name, and those named so."""
    for pod in pods:
        if _owner(pod) in owners:
            yield pod


def _owner(pod: Object) -> tuple[str, str]:
    metadata = pod["metadata"]
    rows = metadata.get("ownerReferences") or []
    row = next((row for row in rows if row.get("controller")), None)
    if row is None:
        return "Pod", metadata["name"]
    if row["kind"] != "ReplicaSet":
        return row["kind"], row["name"]
    # A Deployment names its ReplicaSets after itself and the hash on their pods.
    suffix = (metadata.get("labels") or {}).get("pod-template-hash", "")
    return "Deployment", row["name"].removesuffix(f"-{suffix}")


def _of_pod(pod: Object) -> Iterator[Trouble]:
    name = pod["metadata"]["name"]
    if pod["metadata"].get("deletionTimestamp"):
        return
    status = pod.get("status") or {}
    for row in status.get("conditions") or []:
        if row.get("type") == "PodScheduled" and row.get("reason") == "Unschedulable":
            yield Trouble("Unschedulable", f"pod {name}: {_cut(row.get('message') or '')}")
    for group in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(group) or []:
            if not container.get("ready"):
                yield from _of_container(
                    f"pod {name}, container {container.get('name')}", container
                )


def _of_container(where: str, container: Object) -> Iterator[Trouble]:
    waiting = (container.get("state") or {}).get("waiting") or {}
    ended = (container.get("lastState") or {}).get("terminated") or (
        container.get("state") or {}
    ).get("terminated")
    reason, text = waiting.get("reason") or "", waiting.get("message") or ""
    if reason in _PULLING:
        yield Trouble("ImagePullFailed", f"{where}: {_cut(text or reason)}; {_UNPULLED}")
    if reason in _CREATING:
        yield Trouble("RolloutStuck", f"{where}: {_cut(text or reason)}{_remedy(text)}")
    if ended and ended.get("reason") == "OOMKilled":
        yield Trouble("OutOfMemory", f"{where} was killed for its memory; raise its limit")
    elif reason == "CrashLoopBackOff" or (ended and ended.get("exitCode")):
        code = (ended or {}).get("exitCode", "unknown")
        yield Trouble("CrashLooping", f"{where} ends again and again, last with code {code}")


def _remedy(text: str) -> str:
    """What to do about an image that the level restricted does not let run."""
    return next((f"; {told}" for said, told in _USERS.items() if said in text), "")


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}…"
