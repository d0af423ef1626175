"""NetworkPolicies of an Environment: which traffic its pods may send and receive.

NetworkPolicies add up, so each rule is an object of its own: one denies everything, each of
the others allows one kind of traffic. A Project may add egress rules; those into private address
space only where the administrator's ceiling allows it.

Pure.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from windlass.objects.names import Object

_ANYWHERE_4, _ANYWHERE_6 = "0.0.0.0/0", "::/0"
_NOT_PUBLIC_4 = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
)
_NOT_PUBLIC_6 = ("::1/128", "64:ff9b::/96", "fc00::/7", "fe80::/10", "ff00::/8")
# Never on the wire; but who writes a private IPv4 address this way must not pass.
_MAPPED_4 = "::ffff:0:0/96"
_WEB_PORTS = (80, 443)
_DNS_PORT = 53
_CLUSTER_DNS: Object = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
}
# A DNS cache on the node answers at this address from the host's network, where no
# selector matches.
_NODE_DNS: Object = {"ipBlock": {"cidr": "169.254.20.10/32"}}


class EgressRefused(ValueError):
    """A Project wants to reach an address that the administrator does not grant."""


@dataclass(frozen=True, slots=True)
class EgressRule:
    """A way out that a Project asks for."""

    name: str
    cidrs: tuple[str, ...]
    ports: tuple[tuple[int, Literal["TCP", "UDP"]], ...]


@dataclass(frozen=True, slots=True)
class ClusterNetwork:
    """What the administrator says about the cluster's network."""

    dns_peers: tuple[Object, ...] = (_CLUSTER_DNS, _NODE_DNS)
    cluster_cidrs: tuple[str, ...] = ()
    extra_except: tuple[str, ...] = ()
    egress_ceiling: tuple[str, ...] = ()
    is_enforced: bool = True


def desired_policies(
    doors: Iterable[EgressRule], surroundings: ClusterNetwork, *, web_egress: bool
) -> dict[str, Object]:
    """The spec of every NetworkPolicy by its name; EgressRefused names the door."""
    found: dict[str, Object] = {
        "default-policy": _policy("Ingress", "Egress"),
        "allow-same-namespace": _same_namespace(),
        "allow-dns": _policy("Egress", egress=[_rule(surroundings.dns_peers, _dns_ports())]),
    }
    if web_egress:
        found["allow-web-egress"] = _web_egress(surroundings)
    for door in doors:
        _check_egress(door, surroundings)
        found[f"allow-egress-{door.name}"] = _policy("Egress", egress=[_egress_rule(door)])
    return found


def _check_egress(door: EgressRule, surroundings: ClusterNetwork) -> None:
    inside = (
        *_NOT_PUBLIC_4,
        *_NOT_PUBLIC_6,
        _MAPPED_4,
        *surroundings.cluster_cidrs,
        *surroundings.extra_except,
    )
    for text in door.cidrs:
        wanted = _network(door, text)
        if any(_overlap(wanted, other) for other in inside) and not any(
            _covers(ceiling, wanted) for ceiling in surroundings.egress_ceiling
        ):
            raise EgressRefused(
                f"spec.network.egress {door.name}: {text} is not public, and the operator's "
                "egress ceiling does not cover it; ask the administrator to add it there"
            )


def _network(door: EgressRule, text: str) -> _Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise EgressRefused(
            f"spec.network.egress {door.name}: {text} is not a CIDR such as 10.1.0.0/16, "
            "with no bits set behind the prefix"
        ) from error


_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _overlap(wanted: _Network, other: str) -> bool:
    there = ipaddress.ip_network(other)
    return wanted.version == there.version and wanted.overlaps(there)


def _covers(ceiling: str, wanted: _Network) -> bool:
    bound = ipaddress.ip_network(ceiling)
    if isinstance(bound, ipaddress.IPv4Network):
        return isinstance(wanted, ipaddress.IPv4Network) and wanted.subnet_of(bound)
    return isinstance(wanted, ipaddress.IPv6Network) and wanted.subnet_of(bound)


def _policy(*types: str, **rules: list[Object]) -> Object:
    return {"podSelector": {}, "policyTypes": list(types), **rules}


def _rule(peers: Iterable[Object], ports: list[Object]) -> Object:
    return {"to": list(peers), "ports": ports}


def _same_namespace() -> Object:
    peers: list[Object] = [{"podSelector": {}}]
    return _policy("Ingress", "Egress", ingress=[{"from": peers}], egress=[{"to": peers}])


def _dns_ports() -> list[Object]:
    return [_port(_DNS_PORT, "UDP"), _port(_DNS_PORT, "TCP")]


def _port(number: int, protocol: str) -> Object:
    # Said in full: the server would fill it in, and then the rule would not look like ours.
    return {"port": number, "protocol": protocol}


def _web_egress(surroundings: ClusterNetwork) -> Object:
    more = (*surroundings.cluster_cidrs, *surroundings.extra_except)
    blocks = (
        _block(_ANYWHERE_4, (*_NOT_PUBLIC_4, *_of_version(more, 4))),
        _block(_ANYWHERE_6, (*_NOT_PUBLIC_6, *_of_version(more, 6))),
    )
    return _policy("Egress", egress=[_rule(blocks, [_port(port, "TCP") for port in _WEB_PORTS])])


def _of_version(cidrs: Iterable[str], version: int) -> tuple[str, ...]:
    return tuple(cidr for cidr in cidrs if ipaddress.ip_network(cidr).version == version)


def _block(cidr: str, exceptions: tuple[str, ...]) -> Object:
    return {"ipBlock": {"cidr": cidr, "except": list(dict.fromkeys(exceptions))}}


def _egress_rule(door: EgressRule) -> Object:
    peers: list[Object] = [{"ipBlock": {"cidr": str(_network(door, cidr))}} for cidr in door.cidrs]
    ports = [_port(number, protocol) for number, protocol in door.ports]
    return {"to": peers, **({"ports": ports} if ports else {})}
