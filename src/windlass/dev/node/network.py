"""The link between the machine and a cluster's network, and the routes that use it.

The machine gets one interface and two routes per cluster, and no packet filter: pods
reach the machine, the machine reaches pods and services, and nothing reaches further.
The interface carries the cluster's mark as its hardware address from the moment it
exists, so that `remove` takes no other cluster's.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from windlass.base.errors import WindlassError
from windlass.dev.node import mark, namespaces, slot, system
from windlass.dev.node.slot import Network, Slot

SLOT_TAKEN = "SlotTaken"

_INTERFACES = Path("/sys/class/net")
_FORWARD = "echo 1 > /proc/sys/net/ipv4/ip_forward"


def choose(taken: Iterable[int]) -> Slot:
    """A slot that is free on this machine and not among `taken`."""
    links = (slot.number_of(entry.name) for entry in _INTERFACES.iterdir())
    used = {*taken, *(number for number in links if number is not None)}
    chosen = slot.free(used, routes_in(system.run("ip", "-json", "route", "show", "table", "all")))
    if chosen is None:
        raise WindlassError(
            "SlotsExhausted",
            f"all {slot.COUNT} address blocks for nodes in 10.212.0.0/16 are in use; "
            "`windlass dev down --all` frees those of forgotten clusters",
        )
    return chosen


def routes_in(answer: str) -> list[Network]:
    """The IPv4 destinations in what `ip -json route` printed."""
    rows: list[dict[str, Any]] = json.loads(answer or "[]")
    found = (_network(str(row.get("dst", ""))) for row in rows)
    return [network for network in found if network is not None]


def make(chosen: Slot, directory: Path) -> None:
    """Lay the link and the routes."""
    if (_INTERFACES / chosen.link).exists():
        raise _taken(chosen)
    try:
        system.run("ip", "-batch", "-", text=machine_batch(chosen, directory))
    except WindlassError as fault:
        # Whoever keeps clusters elsewhere, in another home, may have been faster.
        others = (_INTERFACES / chosen.link).exists() and not exists(chosen, directory)
        raise (_taken(chosen) if others else fault) from fault
    inside = namespaces.enter(directory)
    system.run(*inside, "ip", "-batch", "-", text=cluster_batch(chosen))
    system.run(*inside, "sh", "-c", _FORWARD)


def _taken(chosen: Slot) -> WindlassError:
    return WindlassError(
        SLOT_TAKEN,
        f"the addresses {chosen.block} of this cluster were given to another one while it "
        "was not running; `windlass dev down` and `up --node` get it others",
    )


def machine_batch(chosen: Slot, directory: Path) -> str:
    """What `ip` is told on the machine; it stops at the first line that fails."""
    link, address = chosen.link, mark.hardware_address(directory)
    peer = f"peer name eth0 netns {namespaces.network_file(directory)}"
    return "\n".join(
        [
            f"link add {link} address {address} type veth {peer}",
            f"address add {chosen.host_address}/30 dev {link}",
            f"link set {link} up",
            f"route add {chosen.pods} via {chosen.node_address} dev {link}",
            f"route add {chosen.services} via {chosen.node_address} dev {link}",
            "",
        ]
    )


def cluster_batch(chosen: Slot) -> str:
    """What `ip` is told in the cluster's network."""
    return "\n".join(
        [
            "link set lo up",
            f"address add {chosen.node_address}/30 dev eth0",
            "link set eth0 up",
            f"route add default via {chosen.host_address}",
            "",
        ]
    )


def exists(chosen: Slot, directory: Path) -> bool:
    """Whether the cluster's link is there and carries its mark."""
    return chosen.link in _links(directory)


def remove(directory: Path) -> None:
    """Take the cluster's link away, and with it the routes."""
    for link in _links(directory):
        system.run("ip", "link", "delete", link)


def _links(directory: Path) -> list[str]:
    wanted = mark.hardware_address(directory)
    ours = [entry for entry in _INTERFACES.iterdir() if slot.number_of(entry.name) is not None]
    return [entry.name for entry in ours if _address(entry) == wanted]


def _address(interface: Path) -> str:
    try:
        return (interface / "address").read_text().strip()
    except OSError:
        return ""


def _network(destination: str) -> Network | None:
    try:
        return ipaddress.IPv4Network(destination)
    except ValueError:
        return None
