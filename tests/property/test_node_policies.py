"""The packet filter of a node allows exactly what the policies' API defines."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.cluster.iptables_simulator import Packet, PacketFilter
from tests.support.cluster.policy_simulator import Endpoint, PolicyCluster
from windlass_dev.netpol import iptables_chains, policy_decoder, policy_model
from windlass_dev.netpol.policy_model import IpBlock, PolicyInputs, PolicyPod

NETWORK = "10.9.1.0/24"
NAMESPACES = ("red", "blue")
PORTS = (53, 80)
PROTOCOLS = ("TCP", "UDP")

_labels = st.fixed_dictionaries({}, optional={"app": st.sampled_from("ab"), "tier": st.just("x")})
_cidrs = st.sampled_from(["0.0.0.0/0", "10.0.0.0/8", "10.9.1.0/30", "10.9.1.2/32", "8.8.0.0/16"])
_selectors: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}), _labels.map(lambda labels: {"matchLabels": labels})
)
_namespaces: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.sampled_from(NAMESPACES).map(
        lambda name: {"matchLabels": {"kubernetes.io/metadata.name": name}}
    ),
)
_blocks = st.fixed_dictionaries({"cidr": _cidrs}, optional={"except": st.lists(_cidrs, max_size=2)})
_peers = st.one_of(
    st.fixed_dictionaries({"podSelector": _selectors}),
    st.fixed_dictionaries({"namespaceSelector": _namespaces}, optional={"podSelector": _selectors}),
    st.fixed_dictionaries({"ipBlock": _blocks}),
)
_ports = st.fixed_dictionaries(
    {"protocol": st.sampled_from(PROTOCOLS)}, optional={"port": st.sampled_from(PORTS)}
)


def _rules(peers: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    rule = st.fixed_dictionaries(
        {}, optional={peers: st.lists(_peers, max_size=2), "ports": st.lists(_ports, max_size=2)}
    )
    return st.lists(rule, max_size=2)


_specs = st.fixed_dictionaries(
    {
        "podSelector": _selectors,
        "policyTypes": st.lists(st.sampled_from(["Ingress", "Egress"]), min_size=1, unique=True),
        "ingress": _rules("from"),
        "egress": _rules("to"),
    }
)


@given(
    labels=st.lists(st.tuples(st.sampled_from(NAMESPACES), _labels), min_size=2, max_size=4),
    policies=st.fixed_dictionaries({name: st.lists(_specs, max_size=3) for name in NAMESPACES}),
)
def test_filter_and_api_agree(
    labels: list[tuple[str, dict[str, str]]], policies: dict[str, list[dict[str, Any]]]
) -> None:
    """For every pair of pods, and for outside addresses, on every port."""
    endpoints = [Endpoint(f"10.9.1.{2 + i}", space, of) for i, (space, of) in enumerate(labels)]
    outside = [Endpoint("8.8.8.8"), Endpoint("10.1.1.1")]
    simulated, actual = PolicyCluster(policies), _filter(endpoints, policies)
    for sender in (*endpoints, *outside):
        for receiver in (*endpoints, *outside):
            if sender == receiver or (sender in outside and receiver in outside):
                continue
            for port in PORTS:
                for protocol in ("TCP", "UDP"):
                    packet = Packet(sender.address, receiver.address, port, protocol)
                    assert actual.passes(packet) == simulated.connects(
                        sender, receiver, port, protocol
                    ), packet


def _filter(endpoints: list[Endpoint], policies: dict[str, list[dict[str, Any]]]) -> PacketFilter:
    pods = tuple(
        PolicyPod(one.namespace, one.address, one.address, one.labels) for one in endpoints
    )
    read = tuple(
        policy_decoder.decode_policy(name, json.dumps({"spec": spec}).encode())
        for name, specs in policies.items()
        for spec in specs
    )
    namespaces = {name: {"kubernetes.io/metadata.name": name} for name in NAMESPACES}
    expected = iptables_chains.build_chains(PolicyInputs(pods, namespaces, read), NETWORK)
    return PacketFilter(iptables_chains.restore_script(expected, iptables_chains.InstalledChains()))


_networks = st.builds(
    lambda address, length: str(ipaddress.ip_network((address, length), strict=False)),
    st.integers(0, 2**32 - 1),
    st.integers(0, 32),
)


@given(_networks, st.lists(_networks, max_size=4), st.integers(0, 2**32 - 1))
def test_a_block_is_cut_exactly(cidr: str, holes: list[str], number: int) -> None:
    """An address is in the pieces if it is in the block and in none of its exceptions."""
    address = ipaddress.IPv4Address(number)
    pieces = policy_model.block_networks(IpBlock(cidr, tuple(holes)))
    meant = address in ipaddress.ip_network(cidr) and not any(
        address in ipaddress.ip_network(hole) for hole in holes
    )
    assert any(address in piece for piece in pieces) == meant
    assert sum(piece.num_addresses for piece in pieces) == len_of_union(pieces)


def len_of_union(pieces: Iterable[ipaddress.IPv4Network]) -> int:
    """How many addresses there are when each is counted once."""
    return sum(one.num_addresses for one in ipaddress.collapse_addresses(pieces))
