"""Which pods are gateways of an IgnitionSync, and what each is called (GDS-1, 3, 4).

| a pod of the namespace | gateway | rights | reports |
|---|---|---|---|
| not annotated, another CR's, or nobody's for certain | - | - | - |
| ours, being deleted, or over | - | yes | - |
| ours, Pending, its agent not started | - | yes | yes |
| ours, Pending, its agent started | yes | yes | yes |
| ours, Running | yes | yes | if it has an agent |

A pod that names no CR belongs to the only one whose selector matches it; with two such it
belongs to neither. Rights come before the first look of an agent, so none is locked out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from windlass.api.schema.object_references import LabelSelector
from windlass.gateways.decide import gateway
from windlass.gateways.decide.pods import LivePod
from windlass.gateways.decide.refusal import Refused

_STARTED = frozenset(("running", "stopped"))


@dataclass(frozen=True, slots=True)
class Claim:
    """What one IgnitionSync says about which pods are its own."""

    name: str
    selector: LabelSelector | None = None

    def covers(self, pod: LivePod) -> bool:
        return self.selector is None or self.selector.matches(pod.pod.labels)


@dataclass(frozen=True, slots=True)
class Gateway:
    """One discovered gateway; `problem` says why its name cannot be used."""

    name: str
    live: LivePod
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Discovery:
    """What was found for one IgnitionSync, each by name."""

    gateways: tuple[Gateway, ...] = ()
    accounts: tuple[str, ...] = ()
    reporters: tuple[LivePod, ...] = ()


def discover(claim: Claim, claims: Collection[Claim], pods: Iterable[LivePod]) -> Discovery:
    """The gateways of `claim` among `pods`; `claims` are those of all CRs of the namespace."""
    ours = sorted(
        (pod for pod in pods if belongs(pod, claim, claims)), key=lambda pod: (pod.name, pod.uid)
    )
    found = [_named(pod) for pod in ours if _counts(pod)]
    return Discovery(
        gateways=tuple(sorted(found, key=lambda one: (one.name, one.live.name))),
        accounts=tuple(sorted({pod.account for pod in ours})),
        reporters=tuple(pod for pod in ours if _reports(pod)),
    )


def belongs(pod: LivePod, claim: Claim, claims: Collection[Claim]) -> bool:
    """Whether the pod asks to be a gateway of this CR."""
    if pod.pod.said("inject") != "true" or not claim.covers(pod):
        return False
    named = pod.pod.said("cr-name")
    if named:
        return named == claim.name
    return not any(other.covers(pod) for other in claims if other.name != claim.name)


def _counts(pod: LivePod) -> bool:
    if pod.is_terminating:
        return False
    return pod.phase == "Running" or (pod.phase == "Pending" and pod.agent in _STARTED)


def _reports(pod: LivePod) -> bool:
    return pod.agent != "missing" and not pod.is_terminating and not pod.is_over


def _named(pod: LivePod) -> Gateway:
    try:
        return Gateway(gateway.name(pod.pod), pod)
    except Refused as refusal:
        return Gateway(pod.name, pod, refusal.message)
