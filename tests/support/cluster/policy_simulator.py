"""Which traffic a set of NetworkPolicies lets through, by the words of their API.

A pod that no policy of a direction selects is open in that direction; else one rule that
matches is enough. Blocks of addresses are matched for pods too: what a network does there
is its own affair, so the reading that lets more through is the one to test with.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from windlass.objects.names import Object

Protocol = Literal["TCP", "UDP"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a connection; outside of the cluster it has an address alone."""

    address: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def namespace_labels(self) -> dict[str, str]:
        return {"kubernetes.io/metadata.name": self.namespace}


@dataclass(frozen=True, slots=True)
class PolicyCluster:
    """The policies of each namespace."""

    policies: Mapping[str, Iterable[Object]]

    def connects(
        self, sender: Endpoint, receiver: Endpoint, port: int, protocol: Protocol = "TCP"
    ) -> bool:
        """Whether the sender may leave and the receiver may be entered."""
        return self._open("Egress", sender, receiver, port, protocol) and self._open(
            "Ingress", receiver, sender, port, protocol
        )

    def _open(
        self, way: str, own: Endpoint, other: Endpoint, port: int, protocol: Protocol
    ) -> bool:
        about = [
            spec
            for spec in self.policies.get(own.namespace, ())
            if way in spec["policyTypes"] and _selects(spec["podSelector"], own.labels)
        ]
        peers = "to" if way == "Egress" else "from"
        rules = [rule for spec in about for rule in spec.get(way.lower(), ())]
        return not about or any(
            _peers(rule.get(peers), own, other) and _ports(rule.get("ports"), port, protocol)
            for rule in rules
        )


def _peers(peers: list[Object] | None, own: Endpoint, other: Endpoint) -> bool:
    return not peers or any(_peer(peer, own, other) for peer in peers)


def _peer(peer: Object, own: Endpoint, other: Endpoint) -> bool:
    if "ipBlock" in peer:
        return _inside(peer["ipBlock"], other.address)
    if not other.namespace:
        return False
    there = peer.get("namespaceSelector")
    if there is None:
        return other.namespace == own.namespace and _selects(peer["podSelector"], other.labels)
    return _selects(there, other.namespace_labels) and _selects(
        peer.get("podSelector") or {}, other.labels
    )


def _inside(block: Object, address: str) -> bool:
    there = ipaddress.ip_address(address)
    return there in ipaddress.ip_network(block["cidr"]) and not any(
        there in ipaddress.ip_network(hole) for hole in block.get("except", ())
    )


def _ports(ports: list[Object] | None, port: int, protocol: Protocol) -> bool:
    return not ports or any(
        row["protocol"] == protocol and row.get("port", port) == port for row in ports
    )


def _selects(selector: Object, labels: Mapping[str, str]) -> bool:
    assert not selector.get("matchExpressions"), "nothing of ours selects by expressions"
    return all(labels.get(name) == value for name, value in selector.get("matchLabels", {}).items())
