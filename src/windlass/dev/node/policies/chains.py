"""The chains of the packet filter that hold what all policies together say.

Pure. A packet takes this way, in the table `mangle`, whose hooks come before those that
kube-proxy accepts packets in, and after it has chosen the pod behind a service:

    FORWARD ─▶ WINDLASS-POLICY   replies pass
                 ├─ sender in the pods' network ─▶ WINDLASS-FROM ┐ one row per pod
                 └─ receiver in it ──────────────▶ WINDLASS-TO   ┴▶ WINDLASS-<digest>
    INPUT ───▶ WINDLASS-NODE     replies pass, and what the node says to itself
                 └─ sender in the pods' network ─▶ WINDLASS-FROM

A row sends a pod that policies isolate to a chain that returns what they let through and
drops the rest; the digest is that of its content, so pods that may do the same share
one. Once there is any policy, an address that belongs to no known pod is shut: a pod that
has just begun waits for its network, about a second, until the kubelet has told its
address and its policies are in force. What the node itself sends (probes, the API
server) goes through OUTPUT, so it always arrives; what a pod sends to the node is egress.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from windlass.dev.node.policies import openings
from windlass.dev.node.policies.seen import Pod, Way, World

TABLE = "mangle"

_MAIN = "WINDLASS-POLICY"
_NODE = "WINDLASS-NODE"
_ROWS = {Way.EGRESS: "WINDLASS-FROM", Way.INGRESS: "WINDLASS-TO"}
_SELF = {Way.EGRESS: "-s", Way.INGRESS: "-d"}
_PREFIX = "WINDLASS-"
_HOOKS = {"FORWARD": _MAIN, "INPUT": _NODE}
_REPLIES = "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN"
_OURS = re.compile(rf"^:({_PREFIX}\S+) ", re.MULTILINE)

Chains = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Found:
    """What is in the kernel: our chains, and which hooks lead to them."""

    chains: frozenset[str] = frozenset()
    hooks: frozenset[str] = frozenset()


def found_in(saved: str) -> Found:
    """What iptables-save printed of us."""
    lines = saved.splitlines()
    hooks = frozenset(hook for hook in _HOOKS if _jump(hook) in lines)
    return Found(frozenset(_OURS.findall(saved)), hooks)


def of(world: World, pods_network: str) -> Chains:
    """Every chain with its rules, for pods that live in `pods_network`."""
    leaving = f"-s {pods_network} -j {_ROWS[Way.EGRESS]}"
    entering = f"-d {pods_network} -j {_ROWS[Way.INGRESS]}"
    tables: dict[str, tuple[str, ...]] = {
        _MAIN: (_REPLIES, leaving, entering),
        _NODE: (_REPLIES, "-i lo -j RETURN", leaving),
    }
    world = replace(world, pods=_by_address(world.pods))
    for way, name in _ROWS.items():
        rows: list[str] = []
        for pod in world.pods:
            body = _body(pod, way, world)
            if body is not None:
                tables[_name(body)] = body
            rows += _row(pod, way, body)
        tables[name] = (*rows, *_unknown(way, world))
    return tables


def restored(chains: Chains, found: Found) -> str:
    """What iptables-restore is told, to be done in one step without flushing others."""
    stale = sorted(found.chains - set(chains))
    hooks = [_jump(hook) for hook in _HOOKS if hook not in found.hooks]
    rules = [f"-A {name} {rule}" for name, body in chains.items() for rule in body]
    heads = [f":{name} - [0:0]" for name in (*chains, *stale)]
    ends = [f"-X {name}" for name in stale]
    return "\n".join([f"*{TABLE}", *heads, *hooks, *rules, *ends, "COMMIT", ""])


def _jump(hook: str) -> str:
    return f"-A {hook} -j {_HOOKS[hook]}"


def _by_address(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    # An address may pass to a new pod before the old one is gone from the server.
    newest = {pod.address: pod for pod in sorted(pods, key=lambda pod: (pod.created, pod.name))}
    return tuple(newest[address] for address in sorted(newest))


def _unknown(way: Way, world: World) -> tuple[str, ...]:
    """The last row, for whoever is not known yet: any policy might be about them."""
    is_said = any(way.value in policy.spec.policy_types for policy in world.policies)
    return ("-j DROP",) if is_said else ()


def _body(pod: Pod, way: Way, world: World) -> tuple[str, ...] | None:
    """The rules for what `pod` sends or receives; None if no policy isolates it."""
    about = [policy for policy in world.policies if policy.isolates(pod, way)]
    if not about:
        return None
    matches = (
        match
        for policy in about
        for rule in policy.spec.rules(way)
        for match in openings.of(rule, way, pod, world)
    )
    return (*(f"{match} -j RETURN".lstrip() for match in sorted(set(matches))), "-j DROP")


def _row(pod: Pod, way: Way, body: tuple[str, ...] | None) -> list[str]:
    own = f"{_SELF[way]} {pod.address}/32"
    if body is None:
        return [f"{own} -j RETURN"]
    # Nobody can be kept from talking to itself. Whoever is sent on by -g returns from
    # there to the main chain, not to the next row.
    return [f"-s {pod.address}/32 -d {pod.address}/32 -j RETURN", f"{own} -g {_name(body)}"]


def _name(body: tuple[str, ...]) -> str:
    return _PREFIX + hashlib.sha256("\n".join(body).encode()).hexdigest()[:12]
