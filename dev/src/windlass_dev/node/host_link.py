"""The veth link between the machine and a cluster's network, and the routes that use it.

The machine gets one interface and two routes per cluster, and no packet filter: pods
reach the machine, the machine reaches pods and services, and nothing reaches further.
The interface carries the cluster's digest as its hardware address from the start,
so that `remove` takes no other cluster's.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from windlass.base.errors import WindlassError
from windlass_dev.node import allocation, kernel_namespaces, system
from windlass_dev.node.allocation import Network, Slot

SLOT_TAKEN = "SlotTaken"

_INTERFACES = Path("/sys/class/net")
_FORWARD = "echo 1 > /proc/sys/net/ipv4/ip_forward"


def choose_slot(taken: Iterable[int]) -> Slot:
    """A slot that is free on this machine and not among `taken`."""
    links = (allocation.slot_number(entry.name) for entry in _INTERFACES.iterdir())
    used = {*taken, *(number for number in links if number is not None)}
    chosen = allocation.lowest_free_slot(
        used, parse_routes(system.run_command("ip", "-json", "route", "show", "table", "all"))
    )
    if chosen is None:
        raise WindlassError(
            "SlotsExhausted",
            f"all {allocation.SLOT_COUNT} address blocks for nodes in 10.212.0.0/16 are in use; "
            "`windlass dev down --all` frees those of forgotten clusters",
        )
    return chosen


def parse_routes(answer: str) -> list[Network]:
    """The IPv4 destinations in what `ip -json route` printed."""
    rows: list[dict[str, Any]] = json.loads(answer or "[]")
    found = (_parse_network(str(row.get("dst", ""))) for row in rows)
    return [network for network in found if network is not None]


def create(chosen: Slot, directory: Path) -> None:
    """Lay the link and the routes."""
    if (_INTERFACES / chosen.link).exists():
        raise _slot_in_use_error(chosen)
    try:
        system.run_command("ip", "-batch", "-", text=machine_batch(chosen, directory))
    except WindlassError as fault:
        # Whoever keeps clusters elsewhere, in another home, may have been faster.
        others = (_INTERFACES / chosen.link).exists() and not exists(chosen, directory)
        raise (_slot_in_use_error(chosen) if others else fault) from fault
    inside = kernel_namespaces.enter_command(directory)
    system.run_command(*inside, "ip", "-batch", "-", text=cluster_batch(chosen))
    system.run_command(*inside, "sh", "-c", _FORWARD)


def _slot_in_use_error(chosen: Slot) -> WindlassError:
    return WindlassError(
        SLOT_TAKEN,
        f"the addresses {chosen.block} of this cluster were given to another one while it "
        "was not running; `windlass dev down` and `up --node` get it others",
    )


def machine_batch(chosen: Slot, directory: Path) -> str:
    """What `ip` is told on the machine; it stops at the first line that fails."""
    link, address = chosen.link, allocation.hardware_address(directory)
    peer = f"peer name eth0 netns {kernel_namespaces.network_file(directory)}"
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
    return chosen.link in _cluster_links(directory)


def remove(directory: Path) -> None:
    """Take the cluster's link away, and with it the routes."""
    for link in _cluster_links(directory):
        system.run_command("ip", "link", "delete", link)


def _cluster_links(directory: Path) -> list[str]:
    wanted = allocation.hardware_address(directory)
    ours = [
        entry for entry in _INTERFACES.iterdir() if allocation.slot_number(entry.name) is not None
    ]
    return [entry.name for entry in ours if _link_address(entry) == wanted]


def _link_address(interface: Path) -> str:
    try:
        return (interface / "address").read_text().strip()
    except OSError:
        return ""


def _parse_network(destination: str) -> Network | None:
    try:
        return ipaddress.IPv4Network(destination)
    except ValueError:
        return None
