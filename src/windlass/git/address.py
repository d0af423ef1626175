"""Where a host name leads, and whether we go there.

Loopback, link-local and metadata addresses are refused unless the settings list the
host, so that no repository URL reaches the machine's own services. The addresses that
passed are the ones the child is pinned to, so a name that changes its answer in between
changes nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from windlass.git.errors import GitError
from windlass.git.settings import GitSettings

# Of clouds whose own services are not at 169.254.169.254 alone.
_METADATA = frozenset(
    {"fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"}
)
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


async def resolve(host: str, port: int, settings: GitSettings) -> tuple[str, ...]:
    """The addresses of `host`, each of them allowed."""
    bare = host.strip("[]")
    listed = bare in settings.insecure_hosts or bare in settings.local_hosts
    found = await _look_up(bare, port)
    if not listed:
        for address in found:
            _check(bare, address)
    return found


async def _look_up(host: str, port: int) -> tuple[str, ...]:
    loop = asyncio.get_running_loop()
    try:
        answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise GitError("Unavailable", f"the name {host} cannot be resolved") from error
    return tuple(dict.fromkeys(str(answer[4][0]) for answer in answers))


def _check(host: str, text: str) -> None:
    address = _meant(ipaddress.ip_address(text.partition("%")[0]))
    local = address.is_loopback or address.is_link_local or address.is_unspecified
    if local or address.is_multicast or str(address) in _METADATA:
        raise GitError(
            "AddressRefused",
            f"{host} is at a loopback, link-local or metadata address; list the host to allow it",
        )


def _meant(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address that an IPv6 address stands for, where it stands for one."""
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
