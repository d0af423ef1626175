"""NetworkPolicies of an Environment: which traffic its pods may send and receive.

NetworkPolicies add up, so each rule is an object of its own: one denies everything, each of
the others allows one kind of traffic. A Project may add egress rules; those into private address
space only as far as the administrator's ceiling covers them.

Called by `desired_isolation` and by the network probe.

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
# Never on the wire, but a rule that writes a private IPv4 address this way must be refused too.
_MAPPED_4 = "::ffff:0:0/96"
_WEB_PORTS = (80, 443)
_DNS_PORT = 53
_DNS_PEERS: tuple[Object, ...] = (
    {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    },
    # A DNS cache on the node answers at this address from the host's network, where no
    # selector matches.
    {"ipBlock": {"cidr": "169.254.20.10/32"}},
)


class EgressRefused(ValueError):
    """A Project requests egress to an address that the administrator does not allow."""


@dataclass(frozen=True, slots=True)
class EgressRule:
    """An egress rule of a Project; without ports it allows all of them."""

    name: str
    cidrs: tuple[str, ...]
    ports: tuple[tuple[int, Literal["TCP", "UDP"]], ...]


@dataclass(frozen=True, slots=True)
class ClusterNetwork:
    """The administrator's settings for the cluster network."""

    cluster_cidrs: tuple[str, ...] = ()  # addresses of the cluster itself; closed
    extra_except: tuple[str, ...] = ()  # further closed ranges
    egress_ceiling: tuple[str, ...] = ()  # private ranges that Projects may open
    is_enforced: bool = True  # the network plugin enforces NetworkPolicies


def desired_policies(
    egress: Iterable[EgressRule], network: ClusterNetwork, *, web_egress: bool
) -> dict[str, Object]:
    """The spec of every NetworkPolicy by its name; raises EgressRefused for a rule of `egress`."""
    policies: dict[str, Object] = {
        "default-policy": _policy("Ingress", "Egress"),
        "allow-same-namespace": _same_namespace(),
        "allow-dns": _policy("Egress", egress=[_rule(_DNS_PEERS, _dns_ports())]),
    }
    if web_egress:
        policies["allow-web-egress"] = _web_egress(network)
    for rule in egress:
        _check_egress(rule, network)
        policies[f"allow-egress-{rule.name}"] = _policy("Egress", egress=[_egress_rule(rule)])
    return policies


def allowed_rules(egress: Iterable[EgressRule], network: ClusterNetwork) -> tuple[EgressRule, ...]:
    """The rules for which `desired_policies` does not raise EgressRefused."""
    return tuple(rule for rule in egress if _is_allowed(rule, network))


def _is_allowed(rule: EgressRule, network: ClusterNetwork) -> bool:
    try:
        _check_egress(rule, network)
    except EgressRefused:
        return False
    return True


def _check_egress(rule: EgressRule, network: ClusterNetwork) -> None:
    """Raise EgressRefused if a rule reaches private addresses beyond the ceiling."""
    private = (
        *_NOT_PUBLIC_4,
        *_NOT_PUBLIC_6,
        _MAPPED_4,
        *network.cluster_cidrs,
        *network.extra_except,
    )
    for text in rule.cidrs:
        cidr = _network(rule, text)
        if any(_overlap(cidr, other) for other in private) and not any(
            _covers(ceiling, cidr) for ceiling in network.egress_ceiling
        ):
            raise EgressRefused(
                f"spec.network.egress {rule.name}: {text} is not a public range; ask the "
                "administrator to add it to --environments-egress-ceiling"
            )


def _network(rule: EgressRule, text: str) -> _Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise EgressRefused(
            f"spec.network.egress {rule.name}: {text} is not a valid CIDR; use for example "
            "10.1.0.0/16, without bits set after the prefix"
        ) from error


_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _overlap(cidr: _Network, other: str) -> bool:
    other_cidr = ipaddress.ip_network(other)
    return cidr.version == other_cidr.version and cidr.overlaps(other_cidr)


def _covers(ceiling: str, cidr: _Network) -> bool:
    bound = ipaddress.ip_network(ceiling)
    if isinstance(bound, ipaddress.IPv4Network):
        return isinstance(cidr, ipaddress.IPv4Network) and cidr.subnet_of(bound)
    return isinstance(cidr, ipaddress.IPv6Network) and cidr.subnet_of(bound)


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
    # With the protocol: the API server would default it, and the content would differ from ours.
    return {"port": number, "protocol": protocol}


def _web_egress(network: ClusterNetwork) -> Object:
    excluded = (*network.cluster_cidrs, *network.extra_except)
    blocks = (
        _block(_ANYWHERE_4, (*_NOT_PUBLIC_4, *_of_version(excluded, 4))),
        _block(_ANYWHERE_6, (*_NOT_PUBLIC_6, *_of_version(excluded, 6))),
    )
    return _policy("Egress", egress=[_rule(blocks, [_port(port, "TCP") for port in _WEB_PORTS])])


def _of_version(cidrs: Iterable[str], version: int) -> tuple[str, ...]:
    return tuple(cidr for cidr in cidrs if ipaddress.ip_network(cidr).version == version)


def _block(cidr: str, exceptions: tuple[str, ...]) -> Object:
    return {"ipBlock": {"cidr": cidr, "except": list(dict.fromkeys(exceptions))}}


def _egress_rule(rule: EgressRule) -> Object:
    peers: list[Object] = [{"ipBlock": {"cidr": str(_network(rule, cidr))}} for cidr in rule.cidrs]
    ports = [_port(number, protocol) for number, protocol in rule.ports]
    return {"to": peers, **({"ports": ports} if ports else {})}
