"""Pods, namespaces, policies as the enforcer reads them, and the addresses of peers.

The defaults of `PolicySpec` select every pod and allow nothing: they stand for a policy
that could not be decoded. A selector is resolved to the current addresses of its pods, a
block to networks without its exceptions; only IPv4 counts.

Pure.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from msgspec import Struct, field

from windlass.api.schema.object_references import LabelSelector

Labels = Mapping[str, str]


class Direction(enum.Enum):
    """A direction of traffic, as `policyTypes` names it."""

    INGRESS = "Ingress"
    EGRESS = "Egress"


class ContainerPort(Struct, frozen=True, rename="camel"):
    """An entry of a container's `ports`."""

    container_port: int
    protocol: str = "TCP"
    name: str = ""


class PolicyPort(Struct, frozen=True, rename="camel"):
    """The ports that a rule opens: one, a range, one by name, or all of a protocol."""

    protocol: str = "TCP"
    port: int | str | None = None
    end_port: int | None = None


class IpBlock(Struct, frozen=True):
    """A network without some of its subnetworks."""

    cidr: str
    holes: tuple[str, ...] = field(default=(), name="except")


class PolicyPeer(Struct, frozen=True, rename="camel"):
    """The pods or addresses that a rule allows."""

    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    ip_block: IpBlock | None = None


class PolicyRule(Struct, frozen=True):
    """One rule of a policy; without peers it allows every address, without ports all traffic."""

    ports: tuple[PolicyPort, ...] = ()
    senders: tuple[PolicyPeer, ...] = field(default=(), name="from")
    receivers: tuple[PolicyPeer, ...] = field(default=(), name="to")

    @property
    def peers(self) -> tuple[PolicyPeer, ...]:
        """The other side: an ingress rule has only `from`, an egress rule only `to`."""
        return self.senders or self.receivers


class PolicySpec(Struct, frozen=True, rename="camel"):
    """The spec of a NetworkPolicy; the API server has defaulted `policyTypes`."""

    pod_selector: LabelSelector = LabelSelector()
    policy_types: tuple[str, ...] = (Direction.INGRESS.value, Direction.EGRESS.value)
    ingress: tuple[PolicyRule, ...] = ()
    egress: tuple[PolicyRule, ...] = ()

    def rules(self, direction: Direction) -> tuple[PolicyRule, ...]:
        return self.ingress if direction is Direction.INGRESS else self.egress


@dataclass(frozen=True, slots=True)
class PolicyPod:
    """A pod with an address of its own."""

    namespace: str
    """The namespace whose policies select it."""
    name: str
    """Its name, for a stable order."""
    address: str
    """Its IPv4 address."""
    labels: Labels
    """What selectors match."""
    ports: tuple[ContainerPort, ...] = ()
    """The ports of its containers and sidecars, which give names to numbers."""
    created: str = ""
    """Its creationTimestamp: of two pods with one address the newer counts."""


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """A policy in its namespace."""

    namespace: str
    spec: PolicySpec

    def isolates(self, pod: PolicyPod, direction: Direction) -> bool:
        """Whether this policy selects `pod` in `direction`: then only its rules allow traffic."""
        return (
            pod.namespace == self.namespace
            and direction.value in self.spec.policy_types
            and self.spec.pod_selector.matches(pod.labels)
        )


@dataclass(frozen=True, slots=True)
class PolicyInputs:
    """Everything from which the chains are built."""

    pods: tuple[PolicyPod, ...]
    namespaces: Mapping[str, Labels]
    """Labels by name of the namespace."""
    policies: tuple[NetworkPolicy, ...]


_Network = ipaddress.IPv4Network


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """A network in CIDR notation, "" for every address, and the pod that has it, if any."""

    address: str
    pod: PolicyPod | None = None


ANYWHERE = PeerAddress("")


def peer_addresses(
    peers: Iterable[PolicyPeer], namespace: str, inputs: PolicyInputs
) -> Iterator[PeerAddress]:
    """The addresses of `peers` of a policy in `namespace`."""
    for peer in peers:
        if peer.ip_block is not None:
            yield from _block_addresses(peer.ip_block)
        else:
            yield from pod_addresses(
                pod for pod in inputs.pods if _matches_peer(peer, pod, namespace, inputs)
            )


def pod_addresses(pods: Iterable[PolicyPod]) -> Iterator[PeerAddress]:
    """The addresses of `pods`."""
    return (PeerAddress(f"{pod.address}/32", pod) for pod in pods)


@lru_cache(maxsize=256)
def _block_addresses(block: IpBlock) -> tuple[PeerAddress, ...]:
    # Many policies name the same block, and subtracting its exceptions is slow.
    return tuple(PeerAddress(str(network)) for network in block_networks(block))


def block_networks(block: IpBlock) -> tuple[_Network, ...]:
    """The networks that together are `block` without its exceptions."""
    try:
        whole, *holes = (ipaddress.ip_network(cidr, strict=False) for cidr in _cidrs(block))
    except ValueError:
        # The API server accepts no such block, and a guess could open too much.
        return ()
    networks = [whole] if isinstance(whole, _Network) else []
    for hole in holes:
        if isinstance(hole, _Network):
            networks = [piece for network in networks for piece in _subtract(network, hole)]
    return tuple(sorted(networks))


def _cidrs(block: IpBlock) -> tuple[str, ...]:
    return (block.cidr, *block.holes)


def _subtract(network: _Network, hole: _Network) -> list[_Network]:
    if not network.overlaps(hole):
        return [network]
    return [] if network.subnet_of(hole) else list(network.address_exclude(hole))


def _matches_peer(peer: PolicyPeer, pod: PolicyPod, namespace: str, inputs: PolicyInputs) -> bool:
    if peer.namespace_selector is None:
        namespace_matches = pod.namespace == namespace
    else:
        namespace_matches = peer.namespace_selector.matches(
            inputs.namespaces.get(pod.namespace, {})
        )
    return namespace_matches and (
        peer.pod_selector is None or peer.pod_selector.matches(pod.labels)
    )
