"""Which traffic an Environment's pods may send and receive."""

from __future__ import annotations

import pytest

from tests.support.cluster.policy_simulator import Endpoint, PolicyCluster, Protocol
from windlass.environments.isolation import network_policies
from windlass.environments.isolation.network_policies import (
    ClusterNetwork,
    EgressRefused,
    EgressRule,
)

OURS, OTHERS = "env-shop-pr-1", "env-shop-pr-2"
POD = Endpoint("10.244.1.5", OURS, {"app": "web"})
POD_6 = Endpoint("fd00:10::5", OURS, {"app": "web"})
DNS = {"k8s-app": "kube-dns"}

PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:2800:220:1::1"]
NOT_PUBLIC = [
    "169.254.169.254",
    "10.0.0.1",
    "172.16.5.5",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "127.0.0.1",
    "0.0.0.9",
    "192.0.0.8",
    "198.19.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "fd00::1",
    "fe80::1",
    "ff02::1",
    "64:ff9b::a00:1",
]


def _cluster(
    *rules: EgressRule, cluster_network: ClusterNetwork | None = None, web_egress: bool = True
) -> PolicyCluster:
    policies = network_policies.desired_policies(
        rules, cluster_network or ClusterNetwork(), web_egress=web_egress
    )
    return PolicyCluster({OURS: policies.values(), OTHERS: policies.values()})


@pytest.mark.scenario("E38")
@pytest.mark.parametrize("address", PUBLIC)
@pytest.mark.parametrize("port", [80, 443])
def test_public_web_servers_are_reached(address: str, port: int) -> None:
    """Both protocol versions, both ports."""
    assert _cluster().connects(POD, Endpoint(address), port)


@pytest.mark.scenario("E38")
@pytest.mark.parametrize("address", NOT_PUBLIC)
@pytest.mark.parametrize("port", [80, 443, 53, 6443])
def test_nothing_private_is_reached(address: str, port: int) -> None:
    """Metadata services, private networks and the node stay out of reach."""
    assert not _cluster().connects(POD, Endpoint(address), port)


@pytest.mark.scenario("E38")
@pytest.mark.parametrize(("port", "protocol"), [(22, "TCP"), (25, "TCP"), (443, "UDP")])
def test_only_the_web_is_open(port: int, protocol: Protocol) -> None:
    """Other ports of public addresses need an egress rule."""
    assert not _cluster().connects(POD, Endpoint(PUBLIC[0]), port, protocol)


@pytest.mark.scenario("E38")
def test_the_web_can_be_closed() -> None:
    """A Project may have no web egress at all."""
    assert not _cluster(web_egress=False).connects(POD, Endpoint(PUBLIC[0]), 443)


@pytest.mark.scenario("E38")
@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
def test_names_are_resolved(protocol: Protocol) -> None:
    """By the cluster's DNS and by a cache on the node, on port 53 alone."""
    cluster = _cluster()
    server = Endpoint("10.96.0.10", "kube-system", DNS)
    assert cluster.connects(POD, server, 53, protocol)
    assert cluster.connects(POD, Endpoint("169.254.20.10"), 53, protocol)
    assert not cluster.connects(POD, server, 9153, "TCP")
    assert not cluster.connects(
        POD, Endpoint("10.96.0.11", "kube-system", {"app": "x"}), 53, protocol
    )
    assert not cluster.connects(POD, Endpoint("10.96.0.12", OTHERS, DNS), 53, protocol)


@pytest.mark.scenario("E38")
@pytest.mark.parametrize("pod", [POD, POD_6])
def test_pods_of_one_environment_meet(pod: Endpoint) -> None:
    """Inside the namespace every port is open, both ways, in both address families."""
    cluster = _cluster()
    peer = Endpoint("10.244.9.9", OURS, {"app": "db"})
    assert cluster.connects(pod, peer, 5432)
    assert cluster.connects(peer, pod, 8080)


@pytest.mark.scenario("E38")
@pytest.mark.parametrize("stranger", ["10.244.7.7", "fd00:10::7"])
def test_other_namespaces_are_isolated(stranger: str) -> None:
    """No connection to or from another Environment or a namespace without isolation."""
    cluster = _cluster()
    for namespace in (OTHERS, "default"):
        other = Endpoint(stranger, namespace, {"app": "web"})
        assert not cluster.connects(POD, other, 443)
        assert not cluster.connects(other, POD, 443)
    assert not cluster.connects(Endpoint("203.0.113.9"), POD, 443)


def test_public_cluster_addresses_are_excluded_from_web_egress() -> None:
    """Where pods have public addresses, the administrator sets them, and they are isolated."""
    cluster_network = ClusterNetwork(
        cluster_cidrs=("203.0.113.0/24", "2001:db8::/32"), extra_except=("9.9.9.9/32",)
    )
    cluster = _cluster(cluster_network=cluster_network)
    assert not cluster.connects(POD, Endpoint("203.0.113.9", OTHERS), 443)
    assert not cluster.connects(POD, Endpoint("2001:db8::5"), 443)
    assert not cluster.connects(POD, Endpoint("9.9.9.9"), 443)
    assert cluster.connects(POD, Endpoint("9.9.9.10"), 443)


@pytest.mark.scenario("E40")
def test_each_egress_rule_is_a_policy_of_its_own() -> None:
    """So removing a rule deletes its policy, and no other."""
    ceiling = ClusterNetwork(egress_ceiling=("10.20.0.0/16",))
    rules = (
        EgressRule("db", ("10.20.1.0/24",), ((5432, "TCP"),)),
        EgressRule("ntp", ("203.0.113.5/32",), ()),
    )
    both = network_policies.desired_policies(rules, ceiling, web_egress=True)
    first = network_policies.desired_policies(rules[:1], ceiling, web_egress=True)
    assert both.keys() - first.keys() == {"allow-egress-ntp"}
    assert all(both[name] == first[name] for name in first)
    cluster = _cluster(*rules, cluster_network=ceiling)
    assert cluster.connects(POD, Endpoint("10.20.1.9"), 5432)
    assert not cluster.connects(POD, Endpoint("10.20.1.9"), 5433)
    assert not cluster.connects(POD, Endpoint("10.20.2.9"), 5432)
    assert cluster.connects(POD, Endpoint("203.0.113.5"), 123, "UDP")


@pytest.mark.parametrize(
    "cidr",
    [
        "10.0.0.0/8",
        "0.0.0.0/0",
        "::/0",
        "169.254.169.254/32",
        "192.168.1.0/24",
        "fd00::/8",
        "::ffff:10.0.0.0/104",
        "::fffe:0:0/95",
        "128.0.0.0/1",
    ],
)
def test_an_egress_rule_into_private_addresses_needs_the_administrator(cidr: str) -> None:
    """Whatever overlaps with them is refused by name, also where it is written as IPv6."""
    with pytest.raises(EgressRefused, match=r"spec.network.egress db: .*-egress-ceiling"):
        network_policies.desired_policies(
            [EgressRule("db", (cidr,), ())], ClusterNetwork(), web_egress=True
        )


@pytest.mark.parametrize(
    "cluster_network",
    [
        ClusterNetwork(cluster_cidrs=("203.0.113.0/24",)),
        ClusterNetwork(extra_except=("203.0.113.0/24",)),
    ],
)
def test_an_egress_rule_into_excluded_addresses_needs_the_administrator(
    cluster_network: ClusterNetwork,
) -> None:
    """Else a Project could allow what the administrator excluded."""
    with pytest.raises(EgressRefused):
        network_policies.desired_policies(
            [EgressRule("x", ("203.0.113.8/32",), ())], cluster_network, web_egress=True
        )


def test_the_ceiling_must_cover_an_egress_rule_completely() -> None:
    """A rule that exceeds it, or is of another family, is refused."""
    cluster_network = ClusterNetwork(egress_ceiling=("10.1.0.0/16", "fd00:1::/32"))
    for cidr in ("10.1.4.0/24", "fd00:1:2::/48"):
        network_policies.desired_policies(
            [EgressRule("x", (cidr,), ())], cluster_network, web_egress=True
        )
    for cidr in ("10.0.0.0/15", "10.2.0.0/24", "fd00::/16"):
        with pytest.raises(EgressRefused):
            network_policies.desired_policies(
                [EgressRule("x", (cidr,), ())], cluster_network, web_egress=True
            )


def test_a_refused_egress_rule_does_not_refuse_the_others() -> None:
    """Those that are allowed keep their order."""
    rules = [
        EgressRule(name, (cidr,), ())
        for name, cidr in (("a", "203.0.113.0/24"), ("b", "10.0.0.0/8"), ("c", "10.1.0.0/16"))
    ]
    network = ClusterNetwork(egress_ceiling=("10.1.0.0/16",))
    assert network_policies.allowed_rules(rules, network) == (rules[0], rules[2])


@pytest.mark.parametrize("text", ["10.1.2.3/16", "example.org", "10.0.0.0/33", ""])
def test_an_invalid_cidr_is_refused(text: str) -> None:
    """With an example of a valid one."""
    with pytest.raises(EgressRefused, match="is not a valid CIDR; use for example"):
        network_policies.desired_policies(
            [EgressRule("x", (text,), ())], ClusterNetwork(), web_egress=True
        )


def test_an_address_alone_becomes_a_block() -> None:
    """The API server knows blocks only."""
    policies = network_policies.desired_policies(
        [EgressRule("x", ("203.0.113.7",), ())], ClusterNetwork(), web_egress=False
    )
    [rule] = policies["allow-egress-x"]["egress"]
    assert rule == {"to": [{"ipBlock": {"cidr": "203.0.113.7/32"}}]}
