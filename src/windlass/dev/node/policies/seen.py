"""Pods, namespaces, policies as the packet filter sees them.

Pure. A policy of which nothing is known selects everybody and lets nothing through.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct, field

from windlass.api.label_selector import LabelSelector

Labels = Mapping[str, str]


class Way(enum.Enum):
    """A direction, as policies name it."""

    INGRESS = "Ingress"
    EGRESS = "Egress"


class ContainerPort(Struct, frozen=True, rename="camel"):
    """A port that a container announces."""

    container_port: int
    protocol: str = "TCP"
    name: str = ""


class Port(Struct, frozen=True, rename="camel"):
    """Ports that a rule opens: one, a range, by name, or all of a protocol."""

    protocol: str = "TCP"
    port: int | str | None = None
    end_port: int | None = None


class IpBlock(Struct, frozen=True):
    """Addresses without some of them."""

    cidr: str
    holes: tuple[str, ...] = field(default=(), name="except")


class Peer(Struct, frozen=True, rename="camel"):
    """Whom a rule lets through."""

    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    ip_block: IpBlock | None = None


class Rule(Struct, frozen=True):
    """One door; without peers for everybody, without ports for all traffic."""

    ports: tuple[Port, ...] = ()
    senders: tuple[Peer, ...] = field(default=(), name="from")
    receivers: tuple[Peer, ...] = field(default=(), name="to")

    @property
    def peers(self) -> tuple[Peer, ...]:
        return self.senders or self.receivers


class Spec(Struct, frozen=True, rename="camel"):
    """What a policy says; the server has filled in its types."""

    pod_selector: LabelSelector = LabelSelector()
    policy_types: tuple[str, ...] = (Way.INGRESS.value, Way.EGRESS.value)
    ingress: tuple[Rule, ...] = ()
    egress: tuple[Rule, ...] = ()

    def rules(self, way: Way) -> tuple[Rule, ...]:
        return self.ingress if way is Way.INGRESS else self.egress


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod with an address of its own."""

    namespace: str
    name: str
    address: str
    labels: Labels
    ports: tuple[ContainerPort, ...] = ()
    created: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy in its namespace."""

    namespace: str
    spec: Spec

    def isolates(self, pod: Pod, way: Way) -> bool:
        """Whether `pod` is open in this direction only as far as rules say."""
        return (
            pod.namespace == self.namespace
            and way.value in self.spec.policy_types
            and self.spec.pod_selector.matches(pod.labels)
        )


@dataclass(frozen=True, slots=True)
class World:
    """Everything that decides who may talk to whom."""

    pods: tuple[Pod, ...]
    namespaces: Mapping[str, Labels]
    policies: tuple[Policy, ...]
