"""The packet filter that NetworkPolicies are compiled to."""

from __future__ import annotations

import json
from typing import Any

from tests.support.cluster.iptables_simulator import Packet, PacketFilter
from windlass_dev.netpol import iptables_chains, policy_decoder
from windlass_dev.netpol.policy_model import ContainerPort, PolicyInputs, PolicyPod

NETWORK = "10.9.1.0/24"
NODE = "10.9.0.2"
OUTSIDE = "93.184.216.34"
WEB = PolicyPod("shop", "web", "10.9.1.2", {"app": "web"}, (ContainerPort(8080, "TCP", "http"),))
JOB = PolicyPod("shop", "job", "10.9.1.3", {"app": "job"}, (ContainerPort(9090, "TCP", "http"),))
SPY = PolicyPod("spies", "spy", "10.9.1.4", {"app": "spy"})
NAMESPACES = {"shop": {"team": "a"}, "spies": {"team": "b"}}


def policy(namespace: str = "shop", **spec: Any) -> tuple[str, dict[str, Any]]:
    """A policy for all pods of a namespace, unless `spec` selects others."""
    types = [name for name in ("Ingress", "Egress") if name.lower() in spec]
    return namespace, {"podSelector": {}, "policyTypes": types, **spec}


def policy_inputs(
    *policies: tuple[str, dict[str, Any]], pods: tuple[PolicyPod, ...] = (WEB, JOB, SPY)
) -> PolicyInputs:
    """Two pods in one namespace, one in another."""
    read = (
        policy_decoder.decode_policy(name, json.dumps({"spec": spec}).encode())
        for name, spec in policies
    )
    return PolicyInputs(pods, NAMESPACES, tuple(read))


def filtered(*policies: tuple[str, dict[str, Any]]) -> PacketFilter:
    """The filter of those three pods."""
    return PacketFilter(
        iptables_chains.restore_script(
            iptables_chains.build_chains(policy_inputs(*policies), NETWORK),
            iptables_chains.InstalledChains(),
        )
    )


def connects(
    packet_filter: PacketFilter,
    sender: PolicyPod | str,
    receiver: PolicyPod | str,
    port: int = 8080,
    **more: Any,
) -> bool:
    """Whether a first packet arrives."""
    ends = [one.address if isinstance(one, PolicyPod) else one for one in (sender, receiver)]
    return packet_filter.passes(Packet(ends[0], ends[1], port, **more))


def test_without_policies_every_connection_is_allowed() -> None:
    """Between pods, to the outside, and from it."""
    packet_filter = filtered()
    assert connects(packet_filter, SPY, WEB)
    assert connects(packet_filter, WEB, OUTSIDE)
    assert connects(packet_filter, OUTSIDE, WEB)


def test_a_denial_closes_its_own_direction_only() -> None:
    """A pod without ingress still has egress, and the other way round."""
    shut = filtered(policy(ingress=[]))
    assert not connects(shut, SPY, WEB)
    assert not connects(shut, JOB, WEB)
    assert connects(shut, WEB, SPY)
    isolated = filtered(policy(egress=[]))
    assert connects(isolated, SPY, WEB)
    assert not connects(isolated, WEB, SPY)
    assert not connects(isolated, WEB, OUTSIDE)


def test_both_ends_have_to_agree() -> None:
    """Egress is not enough where ingress is denied."""
    packet_filter = filtered(policy(egress=[{}]), policy("spies", ingress=[]))
    assert not connects(packet_filter, WEB, SPY)
    assert connects(packet_filter, WEB, OUTSIDE)


def test_a_pod_reaches_itself_and_replies_pass() -> None:
    """Also if everything is denied."""
    packet_filter = filtered(policy(ingress=[], egress=[]))
    assert connects(packet_filter, WEB, WEB)
    assert connects(packet_filter, WEB, SPY, established=True)


def test_the_node_is_reached_by_rule_only() -> None:
    """The API server is behind it; traffic of the node to itself is not filtered."""
    packet_filter = filtered(policy(egress=[]))
    assert not packet_filter.passes(Packet(WEB.address, NODE, 6443), "INPUT")
    assert packet_filter.passes(Packet(SPY.address, NODE, 6443), "INPUT")
    assert packet_filter.passes(Packet(WEB.address, "10.9.1.1", established=True), "INPUT")
    assert packet_filter.passes(Packet("10.9.1.1", "10.9.1.1", interface="lo"), "INPUT")
    assert packet_filter.passes(Packet(SPY.address, "10.9.1.1"), "INPUT")


def test_an_unknown_pod_is_isolated_while_there_are_policies() -> None:
    """It may be new, and its policies are not known yet."""
    unknown_pod = "10.9.1.99"
    packet_filter = filtered(policy("elsewhere", ingress=[], egress=[]))
    assert not connects(packet_filter, unknown_pod, OUTSIDE)
    assert not connects(packet_filter, WEB, unknown_pod)
    assert not packet_filter.passes(Packet(unknown_pod, NODE), "INPUT")
    shut = filtered(policy("elsewhere", ingress=[]))
    assert connects(shut, unknown_pod, OUTSIDE)
    assert not connects(shut, WEB, unknown_pod)
    assert connects(filtered(), WEB, unknown_pod)


def test_peers_by_pod_by_namespace_and_by_both() -> None:
    """A pod selector alone is for the own namespace; together both have to match."""
    spies = {"matchLabels": {"team": "b"}}
    near = filtered(policy(ingress=[{"from": [{"podSelector": {}}]}]))
    assert connects(near, JOB, WEB)
    assert not connects(near, SPY, WEB)
    far = filtered(policy(ingress=[{"from": [{"namespaceSelector": spies}]}]))
    assert connects(far, SPY, WEB)
    assert not connects(far, JOB, WEB)
    wrong = {"podSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": spies}
    assert not connects(filtered(policy(ingress=[{"from": [wrong]}])), SPY, WEB)
    right = {"podSelector": {"matchLabels": {"app": "spy"}}, "namespaceSelector": spies}
    assert connects(filtered(policy(ingress=[{"from": [right]}])), SPY, WEB)


def test_expressions_select() -> None:
    """In, NotIn, Exists, DoesNotExist; here one that excludes web."""
    unlike = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}
    packet_filter = filtered(policy(podSelector=unlike, ingress=[]))
    assert connects(packet_filter, SPY, WEB)
    assert not connects(packet_filter, SPY, JOB)


def test_a_named_port_is_resolved_by_the_receiver() -> None:
    """Ingress: the pod's own; egress: each peer's; blocks have no names."""
    door = {"ports": [{"port": "http", "protocol": "TCP"}]}
    entering = filtered(policy(ingress=[door]))
    assert connects(entering, SPY, WEB, 8080)
    assert not connects(entering, SPY, WEB, 9090)
    assert connects(entering, SPY, JOB, 9090)
    leaving = filtered(policy("spies", egress=[door]))
    assert connects(leaving, SPY, WEB, 8080)
    assert connects(leaving, SPY, JOB, 9090)
    assert not connects(leaving, SPY, WEB, 9090)
    assert not connects(leaving, SPY, OUTSIDE, 8080)
    block = {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], **door}
    assert not connects(filtered(policy("spies", egress=[block])), SPY, WEB, 8080)


def test_ports_by_number_range_and_protocol() -> None:
    """A protocol without a port means all of its ports."""
    rows = [
        {"port": 53, "protocol": "UDP"},
        {"port": 8000, "endPort": 8100, "protocol": "TCP"},
        {"protocol": "SCTP"},
    ]
    packet_filter = filtered(policy(ingress=[{"ports": rows}]))
    assert connects(packet_filter, SPY, WEB, 53, protocol="UDP")
    assert not connects(packet_filter, SPY, WEB, 53)
    assert [connects(packet_filter, SPY, WEB, port) for port in (7999, 8000, 8100, 8101)] == [
        False,
        True,
        True,
        False,
    ]
    assert connects(packet_filter, SPY, WEB, 7, protocol="SCTP")


def test_a_block_without_its_exceptions() -> None:
    """Also one that is empty then, and one of the other address family."""
    block = {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "93.184.0.0/16"]}
    packet_filter = filtered(policy(egress=[{"to": [{"ipBlock": block}]}]))
    assert connects(packet_filter, WEB, "8.8.8.8")
    assert not connects(packet_filter, WEB, OUTSIDE)
    assert not connects(packet_filter, WEB, SPY)
    for nothing in ({"cidr": "::/0"}, {"cidr": "8.8.0.0/16", "except": ["8.0.0.0/8"]}):
        assert not connects(
            filtered(policy(egress=[{"to": [{"ipBlock": nothing}]}])), WEB, "8.8.8.8"
        )


def test_rules_of_several_policies_add_up() -> None:
    """A denial removes nothing that another policy allows."""
    packet_filter = filtered(policy(ingress=[]), policy(ingress=[{"ports": [{"port": 8080}]}]))
    assert connects(packet_filter, SPY, WEB, 8080)
    assert not connects(packet_filter, SPY, WEB, 8081)


def test_an_unreadable_policy_denies_everything() -> None:
    """A policy that cannot be decoded must not allow anything."""
    packet_filter = filtered(("shop", {"ingress": "everything", "podSelector": {}}))
    assert not connects(packet_filter, SPY, WEB)
    assert not connects(packet_filter, WEB, OUTSIDE)
    assert connects(packet_filter, SPY, OUTSIDE)


def test_an_address_belongs_to_its_newest_pod() -> None:
    """The old one may still be listed while it terminates."""
    old = PolicyPod("shop", "old", SPY.address, {}, created="2026-01-01T00:00:00Z")
    new = PolicyPod("spies", "new", SPY.address, {}, created="2026-01-02T00:00:00Z")
    for pods in ((old, new), (new, old)):
        packet_filter = iptables_chains.build_chains(
            policy_inputs(policy(egress=[]), pods=pods), NETWORK
        )
        assert packet_filter["WINDLASS-FROM"] == ("-s 10.9.1.4/32 -j RETURN", "-j DROP")
    near = policy(ingress=[{"from": [{"podSelector": {}}]}])
    desired = iptables_chains.build_chains(policy_inputs(near, pods=(WEB, old, new)), NETWORK)
    newest_filter = PacketFilter(
        iptables_chains.restore_script(desired, iptables_chains.InstalledChains())
    )
    assert not connects(newest_filter, new, WEB)


def test_the_text_is_one_transaction_that_leaves_others_alone() -> None:
    """Unused chains of ours are deleted; existing hooks are not added again."""
    saved = (
        "*mangle\n:FORWARD ACCEPT [0:0]\n:KUBE-PROXY-CANARY - [0:0]\n:WINDLASS-old - [0:0]\n"
        ":WINDLASS-TO - [0:0]\n-A FORWARD -j WINDLASS-POLICY\nCOMMIT\n"
    )
    packet_filter = iptables_chains.parse_saved(saved)
    same_door = {"from": [{"podSelector": {}}], "ports": [{"port": 80, "protocol": "TCP"}]}
    desired = iptables_chains.build_chains(
        policy_inputs(policy(ingress=[same_door]), pods=(WEB, JOB)), NETWORK
    )
    shared = "WINDLASS-ed07c9266840"
    assert iptables_chains.restore_script(desired, packet_filter).splitlines() == [
        "*mangle",
        ":WINDLASS-POLICY - [0:0]",
        ":WINDLASS-NODE - [0:0]",
        ":WINDLASS-FROM - [0:0]",
        f":{shared} - [0:0]",
        ":WINDLASS-TO - [0:0]",
        ":WINDLASS-old - [0:0]",
        "-A INPUT -j WINDLASS-NODE",
        "-A WINDLASS-POLICY -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN",
        "-A WINDLASS-POLICY -s 10.9.1.0/24 -j WINDLASS-FROM",
        "-A WINDLASS-POLICY -d 10.9.1.0/24 -j WINDLASS-TO",
        "-A WINDLASS-NODE -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN",
        "-A WINDLASS-NODE -i lo -j RETURN",
        "-A WINDLASS-NODE -s 10.9.1.0/24 -j WINDLASS-FROM",
        "-A WINDLASS-FROM -s 10.9.1.2/32 -j RETURN",
        "-A WINDLASS-FROM -s 10.9.1.3/32 -j RETURN",
        f"-A {shared} -s 10.9.1.2/32 -p tcp -m tcp --dport 80 -j RETURN",
        f"-A {shared} -s 10.9.1.3/32 -p tcp -m tcp --dport 80 -j RETURN",
        f"-A {shared} -j DROP",
        "-A WINDLASS-TO -s 10.9.1.2/32 -d 10.9.1.2/32 -j RETURN",
        f"-A WINDLASS-TO -d 10.9.1.2/32 -g {shared}",
        "-A WINDLASS-TO -s 10.9.1.3/32 -d 10.9.1.3/32 -j RETURN",
        f"-A WINDLASS-TO -d 10.9.1.3/32 -g {shared}",
        "-A WINDLASS-TO -j DROP",
        "-X WINDLASS-old",
        "COMMIT",
    ]
