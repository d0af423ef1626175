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
    """An annotated pod, decoded from the bytes of its informer."""

    pod: GatewayPod  # name, namespace, annotations and labels
    uid: str  # names its status ConfigMap; a new pod of the same name has another
    service_account: str = "default"  # gets the rights of an agent
    phase: str = ""  # status.phase
    is_terminating: bool = False  # has a deletionTimestamp
    agent_state: AgentState = "missing"  # by the first table above
    agent_problem: str = ""  # the kubelet's reasons why the agent does not run; often empty

    @property
    def name(self) -> str:
        return self.pod.name

    @property
    def is_finished(self) -> bool:
        return self.phase in _FINISHED_PHASES


# The fields of a pod that matter here; msgspec skips all others.


class _PodMetadataPart(Struct, rename="camel"):
    """`metadata`: name, namespace, uid, annotations, labels, deletion_timestamp as in the API."""

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
    """Whether a pod may be annotated: a search in its bytes, without false negatives."""
    return _INJECT_ANNOTATION_BYTES in raw


def decode_pod(raw: bytes) -> ObservedPod | None:
    """The pod in `raw`; None if `raw` is not a pod."""
    try:
        pod = _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    agent_state, agent_problem = _agent_state(pod)
    meta = pod.metadata
    return ObservedPod(
        pod=GatewayPod(meta.name, meta.namespace, meta.annotations, meta.labels),
        uid=meta.uid,
        service_account=pod.spec.service_account_name or "default",
        phase=pod.status.phase,
        is_terminating=meta.deletion_timestamp is not None,
        agent_state=agent_state,
        agent_problem=agent_problem,
    )


def _agent_state(pod: _PodPart) -> tuple[AgentState, str]:
    if not _has_agent(pod.spec.containers) and not _has_agent(pod.spec.init_containers):
        return "missing", ""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    status = next((candidate for candidate in statuses if candidate.name == AGENT_CONTAINER), None)
    if status is None:
        return "waiting", ""
    if status.state.running is not None:
        return "running", ""
    return ("stopped" if _has_run(status) else "waiting"), _stop_reasons(status)


def _has_agent(containers: Iterable[_ContainerPart]) -> bool:
    return any(container.name == AGENT_CONTAINER for container in containers)


def _has_run(status: _ContainerStatus) -> bool:
    past_states = (status.state.terminated, status.last_state.terminated, status.last_state.running)
    return status.restart_count > 0 or any(state is not None for state in past_states)


def _stop_reasons(status: _ContainerStatus) -> str:
    stops = (status.state.waiting, status.state.terminated, status.last_state.terminated)
    reasons = [stop.reason for stop in stops if stop is not None and stop.reason]
    return ", ".join(dict.fromkeys(reasons))


_STARTED_STATES = frozenset(("running", "stopped"))


@dataclass(frozen=True, slots=True)
class PodClaim:
    """Which pods one IgnitionSync selects."""

    name: str  # of the IgnitionSync
    selector: LabelSelector | None = None  # None selects every pod

    def matches(self, pod: ObservedPod) -> bool:
        return self.selector is None or self.selector.matches(pod.pod.labels)


@dataclass(frozen=True, slots=True)
class DiscoveredGateway:
    """One gateway; `problem` is why its name is invalid (then `name` is the pod's), or empty."""

    name: str
    observed_pod: ObservedPod
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Discovery:
    """The gateways of one IgnitionSync, by the second table above; each tuple is sorted by name."""

    gateways: tuple[DiscoveredGateway, ...] = ()
    service_accounts: tuple[str, ...] = ()  # that get the rights of agents
    reporters: tuple[ObservedPod, ...] = ()  # pods that need a status ConfigMap


def discover_gateways(
    claim: PodClaim, claims: Collection[PodClaim], pods: Iterable[ObservedPod]
) -> Discovery:
    """The gateways of `claim` among `pods`; `claims` are those of all CRs of the namespace."""
    ours = sorted(
        (pod for pod in pods if _belongs_to(pod, claim, claims)),
        key=lambda pod: (pod.name, pod.uid),
    )
    gateways = [_to_gateway(pod) for pod in ours if _is_gateway(pod)]
    return Discovery(
        gateways=tuple(
            sorted(gateways, key=lambda gateway: (gateway.name, gateway.observed_pod.name))
        ),
        service_accounts=tuple(sorted({pod.service_account for pod in ours})),
        reporters=tuple(pod for pod in ours if _is_reporter(pod)),
    )


def _belongs_to(pod: ObservedPod, claim: PodClaim, claims: Collection[PodClaim]) -> bool:
    """Whether the pod is annotated as a gateway and belongs to this CR and to no other."""
    if pod.pod.annotation("inject") != "true" or not claim.matches(pod):
        return False
    cr_name = pod.pod.annotation("cr-name")
    if cr_name:
        return cr_name == claim.name
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
