"""Which addresses the peers of a rule stand for.

Pure. A selector stands for pods with their addresses of this moment, a block for itself
without its exceptions; only IPv4 counts.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from windlass.dev.node.policies.seen import IpBlock, Peer, Pod, World

_Network = ipaddress.IPv4Network


@dataclass(frozen=True, slots=True)
class Place:
    """An address or a block of them, the pod behind it if there is one; "" is anywhere."""

    address: str
    pod: Pod | None = None


ANYWHERE = Place("")


def of_peers(peers: Iterable[Peer], home: str, world: World) -> Iterator[Place]:
    """Every place that `peers` of a policy in the namespace `home` mean."""
    for peer in peers:
        if peer.ip_block is not None:
            yield from _of_block(peer.ip_block)
        else:
            yield from of_pods(pod for pod in world.pods if _is_meant(peer, pod, home, world))


def of_pods(pods: Iterable[Pod]) -> Iterator[Place]:
    """The places of `pods`."""
    return (Place(f"{pod.address}/32", pod) for pod in pods)


@lru_cache(maxsize=256)
def _of_block(block: IpBlock) -> tuple[Place, ...]:
    # Many policies name the same block, and cutting it takes its time.
    return tuple(Place(str(network)) for network in networks(block))


def networks(block: IpBlock) -> tuple[_Network, ...]:
    """The networks that together are `block` without its exceptions."""
    try:
        whole, *holes = (ipaddress.ip_network(one, strict=False) for one in _texts(block))
    except ValueError:
        # The server lets none through, and a guess could open too much.
        return ()
    left = [whole] if isinstance(whole, _Network) else []
    for hole in holes:
        if isinstance(hole, _Network):
            left = [piece for one in left for piece in _without(one, hole)]
    return tuple(sorted(left))


def _texts(block: IpBlock) -> tuple[str, ...]:
    return (block.cidr, *block.holes)


def _without(network: _Network, hole: _Network) -> list[_Network]:
    if not network.overlaps(hole):
        return [network]
    return [] if network.subnet_of(hole) else list(network.address_exclude(hole))


def _is_meant(peer: Peer, pod: Pod, home: str, world: World) -> bool:
    if peer.namespace_selector is None:
        there = pod.namespace == home
    else:
        there = peer.namespace_selector.matches(world.namespaces.get(pod.namespace, {}))
    return there and (peer.pod_selector is None or peer.pod_selector.matches(pod.labels))
