"""Discovers the gateways of an IgnitionSync among the pods of its namespace (GDS-1, 3, 4).

A pod is decoded from the bytes of its informer. Decoding is total: bytes that are not a pod
give None, never an error.

| the agent's container | agent state |
|---|---|
| not in the pod | missing |
| in the pod, no status yet or not started yet | waiting |
| running | running |
| ran before, does not run now | stopped |

| a pod of the namespace | gateway | rights | reports |
|---|---|---|---|
| not annotated, another CR's, or ambiguous | - | - | - |
| ours, being deleted, or finished | - | yes | - |
| ours, Pending, its agent not started | - | yes | yes |
| ours, Pending, its agent started | yes | yes | yes |
| ours, Running | yes | yes | if it has an agent |

A pod that names no CR belongs to the only one whose selector matches it; with two such it
belongs to neither. Rights are granted before an agent's first request, so none is denied.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from windlass.api.schema.object_references import LabelSelector
from windlass.gateways.tree import gateway_pod
from windlass.gateways.tree.gateway_pod import GatewayPod
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.wire.routing import ANNOTATION_PREFIX

AGENT_CONTAINER = "ignition-sync-agent"
INJECT_ANNOTATION = f"{ANNOTATION_PREFIX}inject"

AgentState = Literal["missing", "waiting", "running", "stopped"]

_INJECT_ANNOTATION_BYTES = f'"{INJECT_ANNOTATION}"'.encode()
_FINISHED_PHASES = frozenset(("Succeeded", "Failed"))


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """One pod; `trouble` says why the agent does not run, as far as the kubelet tells."""

    pod: GatewayPod
    uid: str
    service_account: str = "default"
    phase: str = ""
    is_terminating: bool = False
    agent_state: AgentState = "missing"
    agent_problem: str = ""

    @property
    def name(self) -> str:
        return self.pod.name

    @property
    def is_finished(self) -> bool:
        return self.phase in _FINISHED_PHASES


class _PodMetadataPart(Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    deletion_timestamp: str | None = None


class _ContainerPart(Struct):
    name: str = ""


class _PodSpecPart(Struct, rename="camel"):
    service_account_name: str = ""
    containers: list[_ContainerPart] = []
    init_containers: list[_ContainerPart] = []


class _StateReason(Struct):
    reason: str = ""


class _ContainerState(Struct):
    running: dict[str, Any] | None = None
    waiting: _StateReason | None = None
    terminated: _StateReason | None = None


class _ContainerStatus(Struct, rename="camel"):
    name: str = ""
    state: _ContainerState = field(default_factory=_ContainerState)
    last_state: _ContainerState = field(default_factory=_ContainerState)
    restart_count: int = 0


class _PodStatusPart(Struct, rename="camel"):
    phase: str = ""
    container_statuses: list[_ContainerStatus] = []
    init_container_statuses: list[_ContainerStatus] = []


class _PodPart(Struct):
    metadata: _PodMetadataPart
    spec: _PodSpecPart = field(default_factory=_PodSpecPart)
    status: _PodStatusPart = field(default_factory=_PodStatusPart)


_decoder = msgspec.json.Decoder(_PodPart)


def may_be_gateway(raw: bytes) -> bool:
    """Whether a pod may concern us; cheap, and true for every pod that does."""
    return _INJECT_ANNOTATION_BYTES in raw


def decode_pod(raw: bytes) -> ObservedPod | None:
    """The pod in `raw`; None where there is none to be read."""
    try:
        found = _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    agent, trouble = _agent_state(found)
    meta = found.metadata
    return ObservedPod(
        pod=GatewayPod(meta.name, meta.namespace, meta.annotations, meta.labels),
        uid=meta.uid,
        service_account=found.spec.service_account_name or "default",
        phase=found.status.phase,
        is_terminating=meta.deletion_timestamp is not None,
        agent_state=agent,
        agent_problem=trouble,
    )


def _agent_state(pod: _PodPart) -> tuple[AgentState, str]:
    if not _has_agent(pod.spec.containers) and not _has_agent(pod.spec.init_containers):
        return "missing", ""
    told = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    status = next((one for one in told if one.name == AGENT_CONTAINER), None)
    if status is None:
        return "waiting", ""
    if status.state.running is not None:
        return "running", ""
    return ("stopped" if _has_run(status) else "waiting"), _stop_reasons(status)


def _has_agent(containers: Iterable[_ContainerPart]) -> bool:
    return any(one.name == AGENT_CONTAINER for one in containers)


def _has_run(status: _ContainerStatus) -> bool:
    past = (status.state.terminated, status.last_state.terminated, status.last_state.running)
    return status.restart_count > 0 or any(one is not None for one in past)


def _stop_reasons(status: _ContainerStatus) -> str:
    stops = (status.state.waiting, status.state.terminated, status.last_state.terminated)
    words = [stop.reason for stop in stops if stop is not None and stop.reason]
    return ", ".join(dict.fromkeys(words))


_STARTED_STATES = frozenset(("running", "stopped"))


@dataclass(frozen=True, slots=True)
class PodClaim:
    """What one IgnitionSync says about which pods are its own."""

    name: str
    selector: LabelSelector | None = None

    def matches(self, pod: ObservedPod) -> bool:
        return self.selector is None or self.selector.matches(pod.pod.labels)


@dataclass(frozen=True, slots=True)
class DiscoveredGateway:
    """One discovered gateway; `problem` says why its name cannot be used."""

    name: str
    observed_pod: ObservedPod
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Discovery:
    """What was found for one IgnitionSync, each by name."""

    gateways: tuple[DiscoveredGateway, ...] = ()
    service_accounts: tuple[str, ...] = ()
    reporters: tuple[ObservedPod, ...] = ()


def discover_gateways(
    claim: PodClaim, claims: Collection[PodClaim], pods: Iterable[ObservedPod]
) -> Discovery:
    """The gateways of `claim` among `pods`; `claims` are those of all CRs of the namespace."""
    ours = sorted(
        (pod for pod in pods if _belongs_to(pod, claim, claims)),
        key=lambda pod: (pod.name, pod.uid),
    )
    found = [_to_gateway(pod) for pod in ours if _is_gateway(pod)]
    return Discovery(
        gateways=tuple(sorted(found, key=lambda one: (one.name, one.observed_pod.name))),
        service_accounts=tuple(sorted({pod.service_account for pod in ours})),
        reporters=tuple(pod for pod in ours if _is_reporter(pod)),
    )


def _belongs_to(pod: ObservedPod, claim: PodClaim, claims: Collection[PodClaim]) -> bool:
    """Whether the pod asks to be a gateway of this CR."""
    if pod.pod.annotation("inject") != "true" or not claim.matches(pod):
        return False
    named = pod.pod.annotation("cr-name")
    if named:
        return named == claim.name
    return not any(other.matches(pod) for other in claims if other.name != claim.name)


def _is_gateway(pod: ObservedPod) -> bool:
    if pod.is_terminating:
        return False
    return pod.phase == "Running" or (pod.phase == "Pending" and pod.agent_state in _STARTED_STATES)


def _is_reporter(pod: ObservedPod) -> bool:
    return pod.agent_state != "missing" and not pod.is_terminating and not pod.is_finished


def _to_gateway(pod: ObservedPod) -> DiscoveredGateway:
    try:
        return DiscoveredGateway(gateway_pod.name(pod.pod), pod)
    except SyncRefused as refusal:
        return DiscoveredGateway(pod.name, pod, refusal.message)
