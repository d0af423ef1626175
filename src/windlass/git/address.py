"""Where a host name leads, and whether we go there.

Loopback, link-local and metadata addresses, and the blocks that the settings add, are refused
unless the settings list the host, so that no repository URL reaches the machine's own
services. The API server is refused with its port, whatever is listed. The addresses that
passed are the ones the child is pinned to, so a name that changes its answer in between
changes nothing. A refused address, a name without an answer and a server that cannot be
reached have one message: who may write a URL shall not learn from it what listens where.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from windlass.git.errors import GitError
from windlass.git.format import failures
from windlass.git.settings import GitSettings

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Of clouds whose own services are not at 169.254.169.254 alone.
_METADATA = frozenset(
    {"fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"}
)
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


async def resolve(host: str, port: int, settings: GitSettings) -> tuple[str, ...]:
    """The addresses of `host`, each of them allowed."""
    bare = host.strip("[]")
    try:
        found = await _look_up(bare, port)
        own = await _api_server(port, settings)
    except (OSError, UnicodeError) as error:
        raise GitError("Unavailable", failures.unreachable_message(bare, port)) from error
    meant = {_meant(each) for each in found}
    refused = bool(meant & own)
    if not settings.allows_any_address(bare, port):
        refused |= any(_is_refused(each, settings) for each in meant)
    if refused:
        raise GitError("AddressRefused", failures.unreachable_message(bare, port))
    return found


async def _look_up(host: str, port: int) -> tuple[str, ...]:
    loop = asyncio.get_running_loop()
    answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(answer[4][0]) for answer in answers))


async def _api_server(port: int, settings: GitSettings) -> set[_Address]:
    """The API server's addresses, as far as `port` can lead there."""
    if settings.api_server is None or settings.api_server[1] != port:
        return set()
    return {_meant(each) for each in await _look_up(*settings.api_server)}


def _is_refused(address: _Address, settings: GitSettings) -> bool:
    local = address.is_loopback or address.is_link_local or address.is_unspecified
    if local or address.is_multicast or str(address) in _METADATA:
        return True
    return any(address in ipaddress.ip_network(block) for block in settings.refused_cidrs)


def _meant(text: str) -> _Address:
    """The address, or the IPv4 address that an IPv6 address stands for."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


def is_literal(host: str) -> bool:
    """Whether the host is an address already, so that there is nothing to pin."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
