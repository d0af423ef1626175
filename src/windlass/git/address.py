"""Resolves host names of remotes, and refuses addresses that git must not connect to.

Loopback, link-local and metadata addresses, and the blocks that the settings add, are refused
unless the settings list the host, so that no repository URL reaches services of this machine. The
API server is refused with its port, whatever is listed. The child is pinned to the addresses that
passed, so a DNS answer that changes in between has no effect. A refused address, a name without an
answer and a server that cannot be reached have one reason and one message: the author of a URL must
not learn from them what listens where. The log tells which it was.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor

import structlog

from windlass.git.errors import GitError
from windlass.git.format import failures
from windlass.git.settings import GitSettings

_log = structlog.get_logger(__name__)

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Metadata services of clouds beside 169.254.169.254, which is link-local.
_METADATA = frozenset(
    {"fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"}
)
# The addresses that an API server resolved to last, by its endpoint: one entry in a process.
_api_servers: dict[tuple[str, int], set[_Address]] = {}
# Threads of their own: names whose DNS server is silent must not hold up other work in threads.
_lookups = ThreadPoolExecutor(max_workers=32, thread_name_prefix="dns")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


async def resolve(host: str, port: int, settings: GitSettings) -> tuple[str, ...]:
    """The addresses of `host`; GitError unless all of them are allowed."""
    bare = host.strip("[]")
    try:
        resolved = await _getaddrinfo(bare, port)
        api_server = await _api_server(port, settings)
    except (OSError, UnicodeError) as error:
        raise GitError("Unavailable", failures.unreachable_message(bare, port)) from error
    addresses = {_effective_address(text) for text in resolved}
    refused = bool(addresses & api_server)
    if not settings.allows_any_address(bare, port):
        refused |= any(_is_refused(text, settings) for text in addresses)
    if refused:
        _log.debug("git server address refused", host=bare, port=port, addresses=resolved)
        raise GitError("Unavailable", failures.unreachable_message(bare, port))
    return resolved


async def _getaddrinfo(host: str, port: int) -> tuple[str, ...]:
    lookup = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    answers = await asyncio.get_running_loop().run_in_executor(_lookups, lookup)
    return tuple(dict.fromkeys(str(answer[4][0]) for answer in answers))


async def _api_server(port: int, settings: GitSettings) -> set[_Address]:
    """The addresses of the API server; none where it listens on another port."""
    endpoint = settings.api_server
    if endpoint is None or endpoint[1] != port:
        return set()
    try:
        resolved = await _getaddrinfo(*endpoint)
    except (OSError, UnicodeError):
        # A name that only the proxy of the kubeconfig resolves, or DNS is unavailable: no reason
        # to refuse other hosts.
        return _api_servers.get(endpoint, set())
    _api_servers[endpoint] = {_effective_address(text) for text in resolved}
    return _api_servers[endpoint]


def _is_refused(address: _Address, settings: GitSettings) -> bool:
    local = address.is_loopback or address.is_link_local or address.is_unspecified
    if local or address.is_multicast or str(address) in _METADATA:
        return True
    return any(address in ipaddress.ip_network(block) for block in settings.refused_cidrs)


def _effective_address(text: str) -> _Address:
    """The address, or the IPv4 address that an IPv6 address is translated to."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


def is_literal(host: str) -> bool:
    """Whether the host is an IP address, so that there is nothing to pin."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
