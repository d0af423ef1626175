"""What a rule of a policy lets through, in the words of iptables.

Pure. A port's name means what the pod that receives calls it: one and the same rule may
open different numbers for different pods, and none where nobody has the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from windlass.dev.node.policies import places
from windlass.dev.node.policies.places import Place
from windlass.dev.node.policies.seen import Pod, Port, Rule, Way, World

_PEER = {Way.INGRESS: "-s", Way.EGRESS: "-d"}


def of(rule: Rule, way: Way, own: Pod, world: World) -> Iterator[str]:
    """The matches of which one is enough for traffic of `own` to pass; "" is all traffic."""
    for port in rule.ports or (None,):
        for place in _places(rule, port, way, own, world):
            receiver = own if way is Way.INGRESS else place.pod
            for match in _matches(port, receiver):
                yield " ".join(part for part in (_peer(way, place), match) if part)


def _places(rule: Rule, port: Port | None, way: Way, own: Pod, world: World) -> Iterable[Place]:
    if rule.peers:
        return places.of_peers(rule.peers, own.namespace, world)
    if way is Way.EGRESS and port is not None and isinstance(port.port, str):
        return places.of_pods(world.pods)
    return (places.ANYWHERE,)


def _peer(way: Way, place: Place) -> str:
    return f"{_PEER[way]} {place.address}" if place.address else ""


def _matches(port: Port | None, receiver: Pod | None) -> Iterator[str]:
    if port is None:
        yield ""
        return
    protocol = port.protocol.lower()
    if port.port is None:
        yield f"-p {protocol}"
        return
    for number in _numbers(port, receiver):
        last = f":{port.end_port}" if port.end_port is not None else ""
        yield f"-p {protocol} -m {protocol} --dport {number}{last}"


def _numbers(port: Port, receiver: Pod | None) -> list[int]:
    if isinstance(port.port, int):
        return [port.port]
    known = receiver.ports if receiver is not None else ()
    return [
        one.container_port
        for one in known
        if one.name == port.port and one.protocol == port.protocol
    ]
