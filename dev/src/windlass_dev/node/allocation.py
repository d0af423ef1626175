"""Addresses and kernel names that belong to one cluster with a node.

Addresses come from a numbered slot. Every slot is a /22: the first /24 is the link between
machine and cluster, the second the pods, the third the services, the fourth is unused. Two
clusters never share a slot, and no slot is used that a route of this machine already
covers.

Kernel names are derived from the cluster's directory, so `down` needs no record to find
what belongs to a cluster, and can never mistake another cluster's for its own.

Pure.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

SLOT_COUNT = 64

Network = ipaddress.IPv4Network

_ALL_SLOTS = Network("10.212.0.0/16")
_LINK = "windlass"


@dataclass(frozen=True, slots=True)
class Slot:
    """The address block of one cluster with a node."""

    number: int

    @property
    def block(self) -> Network:
        """The whole /22."""
        return Network((int(_ALL_SLOTS.network_address) + self.number * 1024, 22))

    @property
    def link(self) -> str:
        """The name of the machine's end of the link."""
        return f"{_LINK}{self.number}"

    @property
    def host_address(self) -> str:
        """The address of the machine as seen from the node and its pods."""
        return self._at(1)

    @property
    def node_address(self) -> str:
        """The address of the node and of the API server as seen from machine and pods."""
        return self._at(2)

    @property
    def pods(self) -> Network:
        """The network of the pods."""
        return Network((int(self.block.network_address) + 256, 24))

    @property
    def services(self) -> Network:
        """The network of cluster IPs."""
        return Network((int(self.block.network_address) + 512, 24))

    @property
    def service_address(self) -> str:
        """The cluster IP of the Service `kubernetes`."""
        return str(self.services[1])

    @property
    def dns_address(self) -> str:
        """The cluster IP for DNS."""
        return str(self.services[10])

    def _at(self, index: int) -> str:
        return str(self.block[index])


def slot_number(link: str) -> int | None:
    """The number of the slot that the interface `link` occupies; None if it is not ours."""
    number = link.removeprefix(_LINK)
    return int(number) if link.startswith(_LINK) and number.isdecimal() else None


def lowest_free_slot(taken: Collection[int], routes: Iterable[Network]) -> Slot | None:
    """The lowest slot that is neither in `taken` nor covered by a route.

    A wider route (a default route, a company's 10.0.0.0/8) does not count: ours are
    narrower and win.
    """
    narrow = [route for route in routes if route.subnet_of(_ALL_SLOTS)]
    for number in range(SLOT_COUNT):
        slot = Slot(number)
        if number not in taken and not any(slot.block.overlaps(route) for route in narrow):
            return slot
    return None


def directory_digest(directory: Path) -> str:
    """Eight hexadecimal digits that identify `directory`."""
    return hashlib.sha256(str(directory).encode()).hexdigest()[:8]


def cgroup_name(directory: Path) -> str:
    """The name of the cgroup above all pods of the cluster."""
    return f"windlass-{directory_digest(directory)}"


def hardware_address(directory: Path) -> str:
    """The hardware address of the machine's end of the cluster's link."""
    digits = directory_digest(directory)
    # 0a: locally administered, unicast.
    return ":".join(["0a", "57", *(digits[at : at + 2] for at in range(0, 8, 2))])
