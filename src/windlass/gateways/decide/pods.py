"""A pod as the controller sees it: who it is, and how the agent in it does.

| the agent's container | state |
|---|---|
| not in the pod | missing |
| in the pod, nothing known of it or not started yet | waiting |
| running | running |
| ran before, does not run now | stopped |

Reading is total: bytes that are no pod give None, never an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from windlass.gateways.decide.gateway import Pod
from windlass.gateways.decide.routing import PREFIX

AGENT = "ignition-sync-agent"
INJECT = f"{PREFIX}inject"

AgentState = Literal["missing", "waiting", "running", "stopped"]

_INJECT_BYTES = f'"{INJECT}"'.encode()
_OVER = frozenset(("Succeeded", "Failed"))


@dataclass(frozen=True, slots=True)
class LivePod:
    """One pod; `trouble` says why the agent does not run, as far as the kubelet tells."""

    pod: Pod
    uid: str
    account: str = "default"
    phase: str = ""
    is_terminating: bool = False
    agent: AgentState = "missing"
    trouble: str = ""

    @property
    def name(self) -> str:
        return self.pod.name

    @property
    def is_over(self) -> bool:
        return self.phase in _OVER


class _Metadata(Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    deletion_timestamp: str | None = None


class _Container(Struct):
    name: str = ""


class _Spec(Struct, rename="camel"):
    service_account_name: str = ""
    containers: list[_Container] = []
    init_containers: list[_Container] = []


class _Stop(Struct):
    reason: str = ""


class _State(Struct):
    running: dict[str, Any] | None = None
    waiting: _Stop | None = None
    terminated: _Stop | None = None


class _Status(Struct, rename="camel"):
    name: str = ""
    state: _State = field(default_factory=_State)
    last_state: _State = field(default_factory=_State)
    restart_count: int = 0


class _PodStatus(Struct, rename="camel"):
    phase: str = ""
    container_statuses: list[_Status] = []
    init_container_statuses: list[_Status] = []


class _Pod(Struct):
    metadata: _Metadata
    spec: _Spec = field(default_factory=_Spec)
    status: _PodStatus = field(default_factory=_PodStatus)


_decoder = msgspec.json.Decoder(_Pod)


def is_ours(raw: bytes) -> bool:
    """Whether a pod may concern us; cheap, and true for every pod that does."""
    return _INJECT_BYTES in raw


def read(raw: bytes) -> LivePod | None:
    """The pod in `raw`; None where there is none to be read."""
    try:
        found = _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    agent, trouble = _agent(found)
    meta = found.metadata
    return LivePod(
        pod=Pod(meta.name, meta.namespace, meta.annotations, meta.labels),
        uid=meta.uid,
        account=found.spec.service_account_name or "default",
        phase=found.status.phase,
        is_terminating=meta.deletion_timestamp is not None,
        agent=agent,
        trouble=trouble,
    )


def _agent(pod: _Pod) -> tuple[AgentState, str]:
    if not _has(pod.spec.containers) and not _has(pod.spec.init_containers):
        return "missing", ""
    told = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    status = next((one for one in told if one.name == AGENT), None)
    if status is None:
        return "waiting", ""
    if status.state.running is not None:
        return "running", ""
    return ("stopped" if _ran(status) else "waiting"), _trouble(status)


def _has(containers: Iterable[_Container]) -> bool:
    return any(one.name == AGENT for one in containers)


def _ran(status: _Status) -> bool:
    past = (status.state.terminated, status.last_state.terminated, status.last_state.running)
    return status.restart_count > 0 or any(one is not None for one in past)


def _trouble(status: _Status) -> str:
    stops = (status.state.waiting, status.state.terminated, status.last_state.terminated)
    words = [stop.reason for stop in stops if stop is not None and stop.reason]
    return ", ".join(dict.fromkeys(words))
