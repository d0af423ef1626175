"""Addresses and kernel names that belong to one cluster with a node.

Addresses come out of a numbered block. Every slot is a /22: the first /24 holds the link
between machine and cluster, the second the pods, the third the services, the fourth
nothing. Two clusters never share a slot, and no slot is used into which a route of this
machine already leads.

Kernel names are derived from the cluster's directory, so `down` needs no record to find
what belongs to a cluster, and can never take another cluster's for its own.

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
    """The addresses that belong together."""

    number: int

    @property
    def block(self) -> Network:
        return Network((int(_ALL_SLOTS.network_address) + self.number * 1024, 22))

    @property
    def link(self) -> str:
        """The name of the machine's end of the link."""
        return f"{_LINK}{self.number}"

    @property
    def host_address(self) -> str:
        """The machine as the cluster and its pods see it."""
        return self._at(1)

    @property
    def node_address(self) -> str:
        """The node, and the API server, as machine and pods see them."""
        return self._at(2)

    @property
    def pods(self) -> Network:
        return Network((int(self.block.network_address) + 256, 24))

    @property
    def services(self) -> Network:
        return Network((int(self.block.network_address) + 512, 24))

    @property
    def service_address(self) -> str:
        """The API server as a service."""
        return str(self.services[1])

    @property
    def dns_address(self) -> str:
        """Where pods ask for names."""
        return str(self.services[10])

    def _at(self, index: int) -> str:
        return str(self.block[index])


def slot_number(link: str) -> int | None:
    """The slot that a link of this name takes, None for a link that is not ours."""
    number = link.removeprefix(_LINK)
    return int(number) if link.startswith(_LINK) and number.isdecimal() else None


def lowest_free_slot(taken: Collection[int], routes: Iterable[Network]) -> Slot | None:
    """The lowest slot that nobody took and no route leads into.

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
    """Eight characters that no other directory has."""
    return hashlib.sha256(str(directory).encode()).hexdigest()[:8]


def cgroup_name(directory: Path) -> str:
    """The cgroup above all pods of the cluster."""
    return f"windlass-{directory_digest(directory)}"


def hardware_address(directory: Path) -> str:
    """The address that the machine's end of the cluster's link was given when it was made."""
    digits = directory_digest(directory)
    # 0a: locally administered, for one station.
    return ":".join(["0a", "57", *(digits[at : at + 2] for at in range(0, 8, 2))])
