"""The iptables chains that enforce all NetworkPolicies together.

`Enforcer` builds them from its caches. A packet takes this way, in the table `mangle`,
whose hooks come before those in which kube-proxy accepts packets, and after it has chosen
the pod behind a service:

    FORWARD ─▶ WINDLASS-POLICY   replies pass
                 ├─ sender in the pods' network ─▶ WINDLASS-FROM ┐ one row per pod
                 └─ receiver in it ──────────────▶ WINDLASS-TO   ┴▶ WINDLASS-<digest>
    INPUT ───▶ WINDLASS-NODE     replies pass, and what the node sends to itself
                 └─ sender in the pods' network ─▶ WINDLASS-FROM

A row sends the packets of an isolated pod to a chain that returns what its policies allow
and drops the rest; the digest is that of its rules, so pods with equal rules share a
chain. Once there is any policy, an address that belongs to no known pod is closed: a pod
that has just started waits for its network, about a second, until the kubelet has reported
its address and its policies are in force. What the node itself sends (probes, the API
server) goes through OUTPUT, so it always arrives; what a pod sends to the node is egress.

A named port is resolved by the receiving pod: one and the same rule may open different
numbers for different pods, and none where no pod has the name.

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
    rule: PolicyRule, direction: Direction, pod: PolicyPod, inputs: PolicyInputs
) -> Iterator[str]:
    """The iptables matches for what `rule` allows `pod`; "" matches all traffic."""
    for port in rule.ports or (None,):
        for peer in _peer_addresses(rule, port, direction, pod, inputs):
            receiver = pod if direction is Direction.INGRESS else peer.pod
            for match in _port_matches(port, receiver):
                yield " ".join(part for part in (_peer_match(direction, peer), match) if part)


def _peer_addresses(
    rule: PolicyRule,
    port: PolicyPort | None,
    direction: Direction,
    pod: PolicyPod,
    inputs: PolicyInputs,
) -> Iterable[PeerAddress]:
    if rule.peers:
        return policy_model.peer_addresses(rule.peers, pod.namespace, inputs)
    # Without peers every address is meant; but a named port needs a pod that has the name.
    if direction is Direction.EGRESS and port is not None and isinstance(port.port, str):
        return policy_model.pod_addresses(inputs.pods)
    return (policy_model.ANYWHERE,)


def _peer_match(direction: Direction, peer: PeerAddress) -> str:
    return f"{_PEER_OPTION[direction]} {peer.address}" if peer.address else ""


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
    candidates = receiver.ports if receiver is not None else ()
    return [
        candidate.container_port
        for candidate in candidates
        if candidate.name == port.port and candidate.protocol == port.protocol
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
    """Our chains in the kernel, and the hooks that jump to them."""

    chains: frozenset[str] = frozenset()
    hooks: frozenset[str] = frozenset()


def parse_saved(saved: str) -> InstalledChains:
    """Our chains and hooks in the output of iptables-save."""
    lines = saved.splitlines()
    hooks = frozenset(hook for hook in _HOOKS if _jump(hook) in lines)
    return InstalledChains(frozenset(_OWN_CHAIN.findall(saved)), hooks)


def build_chains(inputs: PolicyInputs, pods_network: str) -> Chains:
    """Every chain with its rules, for pods with addresses in `pods_network`."""
    leaving = f"-s {pods_network} -j {_ROWS[Direction.EGRESS]}"
    entering = f"-d {pods_network} -j {_ROWS[Direction.INGRESS]}"
    tables: dict[str, tuple[str, ...]] = {
        _MAIN: (_REPLIES, leaving, entering),
        _NODE: (_REPLIES, "-i lo -j RETURN", leaving),
    }
    inputs = replace(inputs, pods=_by_address(inputs.pods))
    for direction, name in _ROWS.items():
        rows: list[str] = []
        for pod in inputs.pods:
            body = _chain_body(pod, direction, inputs)
            if body is not None:
                tables[_chain_name(body)] = body
            rows += _pod_rules(pod, direction, body)
        tables[name] = (*rows, *_unknown_pod_rule(direction, inputs))
    return tables


def restore_script(chains: Chains, installed: InstalledChains) -> str:
    """The input of iptables-restore that replaces our chains in one step, and only ours."""
    stale = sorted(installed.chains - set(chains))
    hooks = [_jump(hook) for hook in _HOOKS if hook not in installed.hooks]
    rules = [f"-A {name} {rule}" for name, body in chains.items() for rule in body]
    heads = [f":{name} - [0:0]" for name in (*chains, *stale)]
    ends = [f"-X {name}" for name in stale]
    return "\n".join([f"*{TABLE}", *heads, *hooks, *rules, *ends, "COMMIT", ""])


def _jump(hook: str) -> str:
    return f"-A {hook} -j {_HOOKS[hook]}"


def _by_address(pods: Iterable[PolicyPod]) -> tuple[PolicyPod, ...]:
    # An address may go to a new pod before the old one is deleted from the API server.
    newest = {pod.address: pod for pod in sorted(pods, key=lambda pod: (pod.created, pod.name))}
    return tuple(newest[address] for address in sorted(newest))


def _unknown_pod_rule(direction: Direction, inputs: PolicyInputs) -> tuple[str, ...]:
    """The last row, for pods that are not known yet: any policy might select them."""
    any_policy = any(direction.value in policy.spec.policy_types for policy in inputs.policies)
    return ("-j DROP",) if any_policy else ()


def _chain_body(
    pod: PolicyPod, direction: Direction, inputs: PolicyInputs
) -> tuple[str, ...] | None:
    """The chain for what `pod` sends or receives; None if no policy isolates it."""
    isolating = [policy for policy in inputs.policies if policy.isolates(pod, direction)]
    if not isolating:
        return None
    matches = (
        match
        for policy in isolating
        for rule in policy.spec.rules(direction)
        for match in rule_matches(rule, direction, pod, inputs)
    )
    return (*(f"{match} -j RETURN".lstrip() for match in sorted(set(matches))), "-j DROP")


def _pod_rules(pod: PolicyPod, direction: Direction, body: tuple[str, ...] | None) -> list[str]:
    own = f"{_OWN_OPTION[direction]} {pod.address}/32"
    if body is None:
        return [f"{own} -j RETURN"]
    # No policy keeps a pod from connecting to itself. A packet that was sent on by -g
    # returns from there to the main chain, not to the next row.
    return [f"-s {pod.address}/32 -d {pod.address}/32 -j RETURN", f"{own} -g {_chain_name(body)}"]


def _chain_name(body: tuple[str, ...]) -> str:
    return _PREFIX + hashlib.sha256("\n".join(body).encode()).hexdigest()[:12]
