"""The iptables chains that hold what all NetworkPolicies together allow.

A packet takes this way, in the table `mangle`, whose hooks come before those that
kube-proxy accepts packets in, and after it has chosen the pod behind a service:

    FORWARD ─▶ WINDLASS-POLICY   replies pass
                 ├─ sender in the pods' network ─▶ WINDLASS-FROM ┐ one row per pod
                 └─ receiver in it ──────────────▶ WINDLASS-TO   ┴▶ WINDLASS-<digest>
    INPUT ───▶ WINDLASS-NODE     replies pass, and what the node sends to itself
                 └─ sender in the pods' network ─▶ WINDLASS-FROM

A row sends a pod that policies isolate to a chain that returns what they let through and
drops the rest; the digest is that of its content, so pods that may do the same share
one. Once there is any policy, an address that belongs to no known pod is shut: a pod that
has just begun waits for its network, about a second, until the kubelet has reported its
address and its policies are in force. What the node itself sends (probes, the API
server) goes through OUTPUT, so it always arrives; what a pod sends to the node is egress.

A port's name means what the receiving pod calls it: one and the same rule may
open different numbers for different pods, and none where no pod has the name.

Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from windlass_dev.netpol import policy_model
from windlass_dev.netpol.policy_model import (
    Direction,
    PeerAddress,
    PolicyInputs,
    PolicyPod,
    PolicyPort,
    PolicyRule,
)

_PEER_OPTION = {Direction.INGRESS: "-s", Direction.EGRESS: "-d"}


def rule_matches(
    rule: PolicyRule, way: Direction, own: PolicyPod, world: PolicyInputs
) -> Iterator[str]:
    """The matches of which one is enough for traffic of `own` to pass; "" is all traffic."""
    for port in rule.ports or (None,):
        for place in _peer_addresses(rule, port, way, own, world):
            receiver = own if way is Direction.INGRESS else place.pod
            for match in _port_matches(port, receiver):
                yield " ".join(part for part in (_peer_match(way, place), match) if part)


def _peer_addresses(
    rule: PolicyRule, port: PolicyPort | None, way: Direction, own: PolicyPod, world: PolicyInputs
) -> Iterable[PeerAddress]:
    if rule.peers:
        return policy_model.peer_addresses(rule.peers, own.namespace, world)
    if way is Direction.EGRESS and port is not None and isinstance(port.port, str):
        return policy_model.pod_addresses(world.pods)
    return (policy_model.ANYWHERE,)


def _peer_match(way: Direction, place: PeerAddress) -> str:
    return f"{_PEER_OPTION[way]} {place.address}" if place.address else ""


def _port_matches(port: PolicyPort | None, receiver: PolicyPod | None) -> Iterator[str]:
    if port is None:
        yield ""
        return
    protocol = port.protocol.lower()
    if port.port is None:
        yield f"-p {protocol}"
        return
    for number in _port_numbers(port, receiver):
        last = f":{port.end_port}" if port.end_port is not None else ""
        yield f"-p {protocol} -m {protocol} --dport {number}{last}"


def _port_numbers(port: PolicyPort, receiver: PolicyPod | None) -> list[int]:
    if isinstance(port.port, int):
        return [port.port]
    known = receiver.ports if receiver is not None else ()
    return [
        one.container_port
        for one in known
        if one.name == port.port and one.protocol == port.protocol
    ]


TABLE = "mangle"

_MAIN = "WINDLASS-POLICY"
_NODE = "WINDLASS-NODE"
_ROWS = {Direction.EGRESS: "WINDLASS-FROM", Direction.INGRESS: "WINDLASS-TO"}
_OWN_OPTION = {Direction.EGRESS: "-s", Direction.INGRESS: "-d"}
_PREFIX = "WINDLASS-"
_HOOKS = {"FORWARD": _MAIN, "INPUT": _NODE}
_REPLIES = "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN"
_OWN_CHAIN = re.compile(rf"^:({_PREFIX}\S+) ", re.MULTILINE)

Chains = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class InstalledChains:
    """What is in the kernel: our chains, and which hooks lead to them."""

    chains: frozenset[str] = frozenset()
    hooks: frozenset[str] = frozenset()


def parse_saved(saved: str) -> InstalledChains:
    """What iptables-save printed of us."""
    lines = saved.splitlines()
    hooks = frozenset(hook for hook in _HOOKS if _jump(hook) in lines)
    return InstalledChains(frozenset(_OWN_CHAIN.findall(saved)), hooks)


def build_chains(world: PolicyInputs, pods_network: str) -> Chains:
    """Every chain with its rules, for pods that live in `pods_network`."""
    leaving = f"-s {pods_network} -j {_ROWS[Direction.EGRESS]}"
    entering = f"-d {pods_network} -j {_ROWS[Direction.INGRESS]}"
    tables: dict[str, tuple[str, ...]] = {
        _MAIN: (_REPLIES, leaving, entering),
        _NODE: (_REPLIES, "-i lo -j RETURN", leaving),
    }
    world = replace(world, pods=_by_address(world.pods))
    for way, name in _ROWS.items():
        rows: list[str] = []
        for pod in world.pods:
            body = _chain_body(pod, way, world)
            if body is not None:
                tables[_chain_name(body)] = body
            rows += _pod_rules(pod, way, body)
        tables[name] = (*rows, *_unknown_pod_rule(way, world))
    return tables


def restore_script(chains: Chains, found: InstalledChains) -> str:
    """What iptables-restore is told, to be done in one step without flushing others."""
    stale = sorted(found.chains - set(chains))
    hooks = [_jump(hook) for hook in _HOOKS if hook not in found.hooks]
    rules = [f"-A {name} {rule}" for name, body in chains.items() for rule in body]
    heads = [f":{name} - [0:0]" for name in (*chains, *stale)]
    ends = [f"-X {name}" for name in stale]
    return "\n".join([f"*{TABLE}", *heads, *hooks, *rules, *ends, "COMMIT", ""])


def _jump(hook: str) -> str:
    return f"-A {hook} -j {_HOOKS[hook]}"


def _by_address(pods: Iterable[PolicyPod]) -> tuple[PolicyPod, ...]:
    # An address may pass to a new pod before the old one is gone from the server.
    newest = {pod.address: pod for pod in sorted(pods, key=lambda pod: (pod.created, pod.name))}
    return tuple(newest[address] for address in sorted(newest))


def _unknown_pod_rule(way: Direction, world: PolicyInputs) -> tuple[str, ...]:
    """The last row, for whoever is not known yet: any policy might be about them."""
    is_said = any(way.value in policy.spec.policy_types for policy in world.policies)
    return ("-j DROP",) if is_said else ()


def _chain_body(pod: PolicyPod, way: Direction, world: PolicyInputs) -> tuple[str, ...] | None:
    """The rules for what `pod` sends or receives; None if no policy isolates it."""
    about = [policy for policy in world.policies if policy.isolates(pod, way)]
    if not about:
        return None
    matches = (
        match
        for policy in about
        for rule in policy.spec.rules(way)
        for match in rule_matches(rule, way, pod, world)
    )
    return (*(f"{match} -j RETURN".lstrip() for match in sorted(set(matches))), "-j DROP")


def _pod_rules(pod: PolicyPod, way: Direction, body: tuple[str, ...] | None) -> list[str]:
    own = f"{_OWN_OPTION[way]} {pod.address}/32"
    if body is None:
        return [f"{own} -j RETURN"]
    # Nobody can be kept from talking to itself. Whoever is sent on by -g returns from
    # there to the main chain, not to the next row.
    return [f"-s {pod.address}/32 -d {pod.address}/32 -j RETURN", f"{own} -g {_chain_name(body)}"]


def _chain_name(body: tuple[str, ...]) -> str:
    return _PREFIX + hashlib.sha256("\n".join(body).encode()).hexdigest()[:12]
