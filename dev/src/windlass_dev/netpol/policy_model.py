"""Pods, namespaces, policies as the enforcer reads them, and the addresses of peers.

A policy of which nothing is known selects every pod and lets nothing through. A selector
stands for pods with their current addresses, a block for itself without its
exceptions; only IPv4 counts.

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
    """A direction, as policies name it."""

    INGRESS = "Ingress"
    EGRESS = "Egress"


class ContainerPort(Struct, frozen=True, rename="camel"):
    """A port that a container announces."""

    container_port: int
    protocol: str = "TCP"
    name: str = ""


class PolicyPort(Struct, frozen=True, rename="camel"):
    """Ports that a rule opens: one, a range, by name, or all of a protocol."""

    protocol: str = "TCP"
    port: int | str | None = None
    end_port: int | None = None


class IpBlock(Struct, frozen=True):
    """Addresses without some of them."""

    cidr: str
    holes: tuple[str, ...] = field(default=(), name="except")


class PolicyPeer(Struct, frozen=True, rename="camel"):
    """Whom a rule lets through."""

    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    ip_block: IpBlock | None = None


class PolicyRule(Struct, frozen=True):
    """One door; without peers for everybody, without ports for all traffic."""

    ports: tuple[PolicyPort, ...] = ()
    senders: tuple[PolicyPeer, ...] = field(default=(), name="from")
    receivers: tuple[PolicyPeer, ...] = field(default=(), name="to")

    @property
    def peers(self) -> tuple[PolicyPeer, ...]:
        return self.senders or self.receivers


class PolicySpec(Struct, frozen=True, rename="camel"):
    """What a policy says; the server has filled in its types."""

    pod_selector: LabelSelector = LabelSelector()
    policy_types: tuple[str, ...] = (Direction.INGRESS.value, Direction.EGRESS.value)
    ingress: tuple[PolicyRule, ...] = ()
    egress: tuple[PolicyRule, ...] = ()

    def rules(self, way: Direction) -> tuple[PolicyRule, ...]:
        return self.ingress if way is Direction.INGRESS else self.egress


@dataclass(frozen=True, slots=True)
class PolicyPod:
    """A pod with an address of its own."""

    namespace: str
    name: str
    address: str
    labels: Labels
    ports: tuple[ContainerPort, ...] = ()
    created: str = ""


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """A policy in its namespace."""

    namespace: str
    spec: PolicySpec

    def isolates(self, pod: PolicyPod, way: Direction) -> bool:
        """Whether `pod` is open in this direction only as far as rules say."""
        return (
            pod.namespace == self.namespace
            and way.value in self.spec.policy_types
            and self.spec.pod_selector.matches(pod.labels)
        )


@dataclass(frozen=True, slots=True)
class PolicyInputs:
    """Everything that decides who may talk to whom."""

    pods: tuple[PolicyPod, ...]
    namespaces: Mapping[str, Labels]
    policies: tuple[NetworkPolicy, ...]


_Network = ipaddress.IPv4Network


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """An address or a block of them, the pod behind it if there is one; "" is anywhere."""

    address: str
    pod: PolicyPod | None = None


ANYWHERE = PeerAddress("")


def peer_addresses(
    peers: Iterable[PolicyPeer], home: str, world: PolicyInputs
) -> Iterator[PeerAddress]:
    """Every place that `peers` of a policy in the namespace `home` mean."""
    for peer in peers:
        if peer.ip_block is not None:
            yield from _block_addresses(peer.ip_block)
        else:
            yield from pod_addresses(
                pod for pod in world.pods if _matches_peer(peer, pod, home, world)
            )


def pod_addresses(pods: Iterable[PolicyPod]) -> Iterator[PeerAddress]:
    """The places of `pods`."""
    return (PeerAddress(f"{pod.address}/32", pod) for pod in pods)


@lru_cache(maxsize=256)
def _block_addresses(block: IpBlock) -> tuple[PeerAddress, ...]:
    # Many policies name the same block, and cutting it takes its time.
    return tuple(PeerAddress(str(network)) for network in block_networks(block))


def block_networks(block: IpBlock) -> tuple[_Network, ...]:
    """The networks that together are `block` without its exceptions."""
    try:
        whole, *holes = (ipaddress.ip_network(one, strict=False) for one in _cidrs(block))
    except ValueError:
        # The server lets none through, and a guess could open too much.
        return ()
    left = [whole] if isinstance(whole, _Network) else []
    for hole in holes:
        if isinstance(hole, _Network):
            left = [piece for one in left for piece in _subtract(one, hole)]
    return tuple(sorted(left))


def _cidrs(block: IpBlock) -> tuple[str, ...]:
    return (block.cidr, *block.holes)


def _subtract(network: _Network, hole: _Network) -> list[_Network]:
    if not network.overlaps(hole):
        return [network]
    return [] if network.subnet_of(hole) else list(network.address_exclude(hole))


def _matches_peer(peer: PolicyPeer, pod: PolicyPod, home: str, world: PolicyInputs) -> bool:
    if peer.namespace_selector is None:
        there = pod.namespace == home
    else:
        there = peer.namespace_selector.matches(world.namespaces.get(pod.namespace, {}))
    return there and (peer.pod_selector is None or peer.pod_selector.matches(pod.labels))
