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
    """Choose a slot that is free on this machine and not in `taken`."""
    links = (allocation.slot_number(entry.name) for entry in _INTERFACES.iterdir())
    used = {*taken, *(number for number in links if number is not None)}
    slot = allocation.lowest_free_slot(
        used, parse_routes(system.run_command("ip", "-json", "route", "show", "table", "all"))
    )
    if slot is None:
        raise WindlassError(
            "SlotsExhausted",
            f"all {allocation.SLOT_COUNT} address blocks for nodes in 10.212.0.0/16 are in use; "
            "free those of unused clusters with `windlass dev down --all`",
        )
    return slot


def parse_routes(output: str) -> list[Network]:
    """The IPv4 destinations in the output of `ip -json route`."""
    rows: list[dict[str, Any]] = json.loads(output or "[]")
    networks = (_parse_network(str(row.get("dst", ""))) for row in rows)
    return [network for network in networks if network is not None]


def create(slot: Slot, directory: Path) -> None:
    """Create the link, its addresses and the routes."""
    if (_INTERFACES / slot.link).exists():
        raise _slot_in_use_error(slot)
    try:
        system.run_command("ip", "-batch", "-", text=machine_batch(slot, directory))
    except WindlassError as fault:
        # A cluster with another state directory, which we cannot list, may have been faster.
        taken_by_other = (_INTERFACES / slot.link).exists() and not exists(slot, directory)
        raise (_slot_in_use_error(slot) if taken_by_other else fault) from fault
    inside = kernel_namespaces.enter_command(directory)
    system.run_command(*inside, "ip", "-batch", "-", text=cluster_batch(slot))
    system.run_command(*inside, "sh", "-c", _FORWARD)


def _slot_in_use_error(slot: Slot) -> WindlassError:
    return WindlassError(
        SLOT_TAKEN,
        f"the address block {slot.block} of this cluster is in use by another cluster; "
        "recreate this one with `windlass dev down`, then `up --node`",
    )


def machine_batch(slot: Slot, directory: Path) -> str:
    """The batch of `ip` commands on the machine; `ip` stops at the first one that fails."""
    link, address = slot.link, allocation.hardware_address(directory)
    peer = f"peer name eth0 netns {kernel_namespaces.network_file(directory)}"
    return "\n".join(
        [
            f"link add {link} address {address} type veth {peer}",
            f"address add {slot.host_address}/30 dev {link}",
            f"link set {link} up",
            f"route add {slot.pods} via {slot.node_address} dev {link}",
            f"route add {slot.services} via {slot.node_address} dev {link}",
            "",
        ]
    )


def cluster_batch(slot: Slot) -> str:
    """The batch of `ip` commands in the cluster's network."""
    return "\n".join(
        [
            "link set lo up",
            f"address add {slot.node_address}/30 dev eth0",
            "link set eth0 up",
            f"route add default via {slot.host_address}",
            "",
        ]
    )


def exists(slot: Slot, directory: Path) -> bool:
    """Whether the link exists with the cluster's hardware address."""
    return slot.link in _cluster_links(directory)


def remove(directory: Path) -> None:
    """Delete the cluster's link, and with it the routes."""
    for link in _cluster_links(directory):
        system.run_command("ip", "link", "delete", link)


def _cluster_links(directory: Path) -> list[str]:
    own_address = allocation.hardware_address(directory)
    candidates = [
        entry for entry in _INTERFACES.iterdir() if allocation.slot_number(entry.name) is not None
    ]
    return [entry.name for entry in candidates if _link_address(entry) == own_address]


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
