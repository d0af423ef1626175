"""What an iptables table does to a packet, by its text alone."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Packet:
    """The first packet of a connection, or a later one."""

    source: str
    destination: str
    port: int = 80
    protocol: str = "TCP"
    established: bool = False
    interface: str = "eth0"


class PacketFilter:
    """One table: chains of rules, as iptables-restore reads them."""

    def __init__(self, text: str) -> None:
        self.chains: dict[str, list[list[str]]] = {"FORWARD": [], "INPUT": []}
        for line in text.splitlines():
            if line.startswith(":"):
                self.chains[line[1:].split()[0]] = []
            elif line.startswith("-A "):
                _, chain, *rule = shlex.split(line)
                self.chains[chain].append(rule)
            elif line.startswith("-X "):
                del self.chains[line.split()[1]]

    def passes(self, packet: Packet, hook: str = "FORWARD") -> bool:
        """Whether the packet leaves the hook."""
        return self._walk(hook, packet) != "DROP"

    def _walk(self, chain: str, packet: Packet) -> str:
        for rule in self.chains[chain]:
            target, goes = _target(rule)
            if not all(_holds(name, value, packet) for name, value in _matches(rule)):
                continue
            if target in ("RETURN", "DROP"):
                return target
            if self._walk(target, packet) == "DROP":
                return "DROP"
            if goes:
                return "RETURN"
        return "RETURN"


def _target(rule: list[str]) -> tuple[str, bool]:
    verb, target = rule[-2:]
    assert verb in ("-j", "-g")
    return target, verb == "-g"


def _matches(rule: list[str]) -> Iterator[tuple[str, str]]:
    words = rule[:-2]
    assert len(words) % 2 == 0, rule
    yield from zip(words[::2], words[1::2], strict=True)


def _holds(name: str, value: str, packet: Packet) -> bool:
    match name:
        case "-s":
            return _inside(packet.source, value)
        case "-d":
            return _inside(packet.destination, value)
        case "-i":
            return packet.interface == value
        case "-p":
            return packet.protocol.lower() == value
        case "-m":
            return value == "conntrack" or value == packet.protocol.lower()
        case "--ctstate":
            assert value == "RELATED,ESTABLISHED"
            return packet.established
        case "--dport":
            first, _, last = value.partition(":")
            return int(first) <= packet.port <= int(last or first)
    raise AssertionError(f"{name} {value} is no match that is known here")


@cache
def _inside(address: str, network: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(network)
