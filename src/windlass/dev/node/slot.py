"""The addresses of one cluster with a node, out of a numbered block.

Pure. Every slot is a /22: the first /24 holds the link between machine and cluster, the
second the pods, the third the services, the fourth nothing. Two clusters never share a
slot, and no slot is used into which a route of this machine already leads.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from dataclasses import dataclass

COUNT = 64

Network = ipaddress.IPv4Network

_ALL = Network("10.212.0.0/16")
_LINK = "windlass"


@dataclass(frozen=True, slots=True)
class Slot:
    """The addresses that belong together."""

    number: int

    @property
    def block(self) -> Network:
        return Network((int(_ALL.network_address) + self.number * 1024, 22))

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


def number_of(link: str) -> int | None:
    """The slot that a link of this name takes, None for a link that is not ours."""
    number = link.removeprefix(_LINK)
    return int(number) if link.startswith(_LINK) and number.isdecimal() else None


def free(taken: Collection[int], routes: Iterable[Network]) -> Slot | None:
    """The lowest slot that nobody took and no route leads into.

    A wider route (a default route, a company's 10.0.0.0/8) does not count: ours are
    narrower and win.
    """
    narrow = [route for route in routes if route.subnet_of(_ALL)]
    for number in range(COUNT):
        slot = Slot(number)
        if number not in taken and not any(slot.block.overlaps(route) for route in narrow):
            return slot
    return None
