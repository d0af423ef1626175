"""Why a rollout does not move on, read from its pods.

| Pod says | Reason | Waits |
|---|---|---|
| image cannot be pulled | ImagePullFailed | until the deadline |
| container ends again and again | CrashLooping | until the deadline |
| container was killed for its memory | OutOfMemory | until the deadline |
| container cannot be created | ConfigInvalid | until the deadline |
| no node takes the pod | Unschedulable | for ever; a node may come |

The worst of all pods speaks, so that one sentence names one cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from windlass.objects.json import Object

_PULLING = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_CREATING = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_ORDER = (
    "ImagePullFailed",
    "OutOfMemory",
    "CrashLooping",
    "ConfigInvalid",
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


def _of_pod(pod: Object) -> Iterator[Trouble]:
    name = pod["metadata"]["name"]
    status = pod.get("status") or {}
    for row in status.get("conditions") or []:
        if row.get("type") == "PodScheduled" and row.get("reason") == "Unschedulable":
            yield Trouble("Unschedulable", f"pod {name}: {row.get('message', '')}")
    for group in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(group) or []:
            yield from _of_container(f"pod {name}, container {container.get('name')}", container)


def _of_container(where: str, container: Object) -> Iterator[Trouble]:
    waiting = (container.get("state") or {}).get("waiting") or {}
    ended = (container.get("lastState") or {}).get("terminated") or (
        container.get("state") or {}
    ).get("terminated")
    reason, text = waiting.get("reason") or "", waiting.get("message") or ""
    if reason in _PULLING:
        yield Trouble("ImagePullFailed", f"{where}: {text or reason}")
    if reason in _CREATING:
        yield Trouble("ConfigInvalid", f"{where}: {text or reason}")
    if ended and ended.get("reason") == "OOMKilled":
        yield Trouble("OutOfMemory", f"{where} was killed for its memory; raise its limit")
    elif reason == "CrashLoopBackOff" or (ended and ended.get("exitCode")):
        code = (ended or {}).get("exitCode", "unknown")
        yield Trouble("CrashLooping", f"{where} ends again and again, last with code {code}")
