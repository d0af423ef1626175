"""Tests of the packet filter that policies become."""

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
    """A policy about everybody in a namespace, unless it says otherwise."""
    types = [name for name in ("Ingress", "Egress") if name.lower() in spec]
    return namespace, {"podSelector": {}, "policyTypes": types, **spec}


def world(
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
            iptables_chains.build_chains(world(*policies), NETWORK),
            iptables_chains.InstalledChains(),
        )
    )


def talks(
    found: PacketFilter,
    sender: PolicyPod | str,
    receiver: PolicyPod | str,
    port: int = 8080,
    **more: Any,
) -> bool:
    """Whether a first packet arrives."""
    ends = [one.address if isinstance(one, PolicyPod) else one for one in (sender, receiver)]
    return found.passes(Packet(ends[0], ends[1], port, **more))


def test_without_policies_everybody_talks() -> None:
    """To each other, to the world, and the world to them."""
    found = filtered()
    assert talks(found, SPY, WEB)
    assert talks(found, WEB, OUTSIDE)
    assert talks(found, OUTSIDE, WEB)


def test_a_denial_closes_its_own_direction_only() -> None:
    """Who may not be entered may still leave, and the other way round."""
    shut = filtered(policy(ingress=[]))
    assert not talks(shut, SPY, WEB)
    assert not talks(shut, JOB, WEB)
    assert talks(shut, WEB, SPY)
    mute = filtered(policy(egress=[]))
    assert talks(mute, SPY, WEB)
    assert not talks(mute, WEB, SPY)
    assert not talks(mute, WEB, OUTSIDE)


def test_both_ends_have_to_agree() -> None:
    """Leaving is not enough where entering is denied."""
    found = filtered(policy(egress=[{}]), policy("spies", ingress=[]))
    assert not talks(found, WEB, SPY)
    assert talks(found, WEB, OUTSIDE)


def test_nobody_is_kept_from_itself_and_replies_pass() -> None:
    """Also under a denial of everything."""
    found = filtered(policy(ingress=[], egress=[]))
    assert talks(found, WEB, WEB)
    assert talks(found, WEB, SPY, established=True)


def test_the_node_is_reached_by_rule_only() -> None:
    """The API server is behind it; what the node says to itself is its own affair."""
    found = filtered(policy(egress=[]))
    assert not found.passes(Packet(WEB.address, NODE, 6443), "INPUT")
    assert found.passes(Packet(SPY.address, NODE, 6443), "INPUT")
    assert found.passes(Packet(WEB.address, "10.9.1.1", established=True), "INPUT")
    assert found.passes(Packet("10.9.1.1", "10.9.1.1", interface="lo"), "INPUT")
    assert found.passes(Packet(SPY.address, "10.9.1.1"), "INPUT")


def test_an_unknown_pod_waits_while_there_are_policies() -> None:
    """It may have begun a moment ago, and nobody knows yet what holds for it."""
    stranger = "10.9.1.99"
    found = filtered(policy("elsewhere", ingress=[], egress=[]))
    assert not talks(found, stranger, OUTSIDE)
    assert not talks(found, WEB, stranger)
    assert not found.passes(Packet(stranger, NODE), "INPUT")
    shut = filtered(policy("elsewhere", ingress=[]))
    assert talks(shut, stranger, OUTSIDE)
    assert not talks(shut, WEB, stranger)
    assert talks(filtered(), WEB, stranger)


def test_peers_by_pod_by_namespace_and_by_both() -> None:
    """A pod selector alone means the own namespace; together both have to fit."""
    spies = {"matchLabels": {"team": "b"}}
    near = filtered(policy(ingress=[{"from": [{"podSelector": {}}]}]))
    assert talks(near, JOB, WEB)
    assert not talks(near, SPY, WEB)
    far = filtered(policy(ingress=[{"from": [{"namespaceSelector": spies}]}]))
    assert talks(far, SPY, WEB)
    assert not talks(far, JOB, WEB)
    wrong = {"podSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": spies}
    assert not talks(filtered(policy(ingress=[{"from": [wrong]}])), SPY, WEB)
    right = {"podSelector": {"matchLabels": {"app": "spy"}}, "namespaceSelector": spies}
    assert talks(filtered(policy(ingress=[{"from": [right]}])), SPY, WEB)


def test_expressions_select() -> None:
    """In, NotIn, Exists, DoesNotExist; here one that leaves the web alone."""
    unlike = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}
    found = filtered(policy(podSelector=unlike, ingress=[]))
    assert talks(found, SPY, WEB)
    assert not talks(found, SPY, JOB)


def test_a_named_port_is_what_the_receiver_calls_so() -> None:
    """Entering: the pod's own; leaving: each peer's; blocks have no names."""
    door = {"ports": [{"port": "http", "protocol": "TCP"}]}
    entering = filtered(policy(ingress=[door]))
    assert talks(entering, SPY, WEB, 8080)
    assert not talks(entering, SPY, WEB, 9090)
    assert talks(entering, SPY, JOB, 9090)
    leaving = filtered(policy("spies", egress=[door]))
    assert talks(leaving, SPY, WEB, 8080)
    assert talks(leaving, SPY, JOB, 9090)
    assert not talks(leaving, SPY, WEB, 9090)
    assert not talks(leaving, SPY, OUTSIDE, 8080)
    block = {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], **door}
    assert not talks(filtered(policy("spies", egress=[block])), SPY, WEB, 8080)


def test_ports_by_number_range_and_protocol() -> None:
    """A protocol without a port means all of its ports."""
    rows = [
        {"port": 53, "protocol": "UDP"},
        {"port": 8000, "endPort": 8100, "protocol": "TCP"},
        {"protocol": "SCTP"},
    ]
    found = filtered(policy(ingress=[{"ports": rows}]))
    assert talks(found, SPY, WEB, 53, protocol="UDP")
    assert not talks(found, SPY, WEB, 53)
    assert [talks(found, SPY, WEB, port) for port in (7999, 8000, 8100, 8101)] == [
        False,
        True,
        True,
        False,
    ]
    assert talks(found, SPY, WEB, 7, protocol="SCTP")


def test_a_block_without_its_exceptions() -> None:
    """Also one that leaves nothing, and one of the other protocol family."""
    block = {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "93.184.0.0/16"]}
    found = filtered(policy(egress=[{"to": [{"ipBlock": block}]}]))
    assert talks(found, WEB, "8.8.8.8")
    assert not talks(found, WEB, OUTSIDE)
    assert not talks(found, WEB, SPY)
    for nothing in ({"cidr": "::/0"}, {"cidr": "8.8.0.0/16", "except": ["8.0.0.0/8"]}):
        assert not talks(filtered(policy(egress=[{"to": [{"ipBlock": nothing}]}])), WEB, "8.8.8.8")


def test_rules_of_several_policies_add_up() -> None:
    """A denial takes away nothing that another policy gives."""
    found = filtered(policy(ingress=[]), policy(ingress=[{"ports": [{"port": 8080}]}]))
    assert talks(found, SPY, WEB, 8080)
    assert not talks(found, SPY, WEB, 8081)


def test_an_unreadable_policy_denies_everything() -> None:
    """What cannot be understood may not open a door."""
    found = filtered(("shop", {"ingress": "everything", "podSelector": {}}))
    assert not talks(found, SPY, WEB)
    assert not talks(found, WEB, OUTSIDE)
    assert talks(found, SPY, OUTSIDE)


def test_an_address_belongs_to_its_newest_pod() -> None:
    """The old one may still be listed, on its way out."""
    old = PolicyPod("shop", "old", SPY.address, {}, created="2026-01-01T00:00:00Z")
    new = PolicyPod("spies", "new", SPY.address, {}, created="2026-01-02T00:00:00Z")
    for pods in ((old, new), (new, old)):
        found = iptables_chains.build_chains(world(policy(egress=[]), pods=pods), NETWORK)
        assert found["WINDLASS-FROM"] == ("-s 10.9.1.4/32 -j RETURN", "-j DROP")
    near = policy(ingress=[{"from": [{"podSelector": {}}]}])
    wanted = iptables_chains.build_chains(world(near, pods=(WEB, old, new)), NETWORK)
    told = PacketFilter(iptables_chains.restore_script(wanted, iptables_chains.InstalledChains()))
    assert not talks(told, new, WEB)


def test_the_text_is_one_transaction_that_leaves_others_alone() -> None:
    """Chains of ours that nobody needs go; hooks that are there are not added again."""
    saved = (
        "*mangle\n:FORWARD ACCEPT [0:0]\n:KUBE-PROXY-CANARY - [0:0]\n:WINDLASS-old - [0:0]\n"
        ":WINDLASS-TO - [0:0]\n-A FORWARD -j WINDLASS-POLICY\nCOMMIT\n"
    )
    found = iptables_chains.parse_saved(saved)
    same_door = {"from": [{"podSelector": {}}], "ports": [{"port": 80, "protocol": "TCP"}]}
    wanted = iptables_chains.build_chains(
        world(policy(ingress=[same_door]), pods=(WEB, JOB)), NETWORK
    )
    shared = "WINDLASS-ed07c9266840"
    assert iptables_chains.restore_script(wanted, found).splitlines() == [
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
