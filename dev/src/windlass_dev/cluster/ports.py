"""Chooses TCP ports that stay free for a cluster while its components are down.

Only ports below the kernel's ephemeral range are chosen: while a component is down, no
client can be given its port by chance, and a client that keeps dialing it cannot end up
connected to itself.
"""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from windlass.base import files
from windlass.base.errors import WindlassError

LOWEST = 15_000
"""The first port for clusters and what runs beside them; tests take theirs from below it."""

_COMPONENTS = 20_000
"""The first port for components of clusters; what runs beside them has those below it."""

_CONNECT_SECONDS = 5.0
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def choose_ports(
    count: int,
    *,
    taken: Collection[int],
    floor: int = _COMPONENTS,
    ceiling: int,
    is_free: Callable[[int], bool],
    rng: random.Random,
) -> list[int]:
    """`count` different free ports from `floor` to below `ceiling`, none of them in `taken`."""
    chosen: list[int] = []
    for port in rng.sample(range(floor, ceiling), ceiling - floor):
        if len(chosen) == count:
            return chosen
        if port not in taken and is_free(port):
            chosen.append(port)
    raise WindlassError(
        "PortsExhausted",
        f"fewer than {count} free ports between {floor} and {ceiling} on 127.0.0.1",
    )


def first_ephemeral_port() -> int:
    """The first port that the kernel may give to an outgoing connection."""
    try:
        first = int(_EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 32_768
    # Where nearly all ports are ephemeral there is no safe range; then any port will do.
    return first if first > _COMPONENTS + 1000 else 60_000


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether nothing listens on `port` of `host` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def is_listening(port: int, host: str) -> bool:
    """Whether a server accepts connections on `port` of `host`.

    For servers that are starting: `is_free` would hold their port for a moment.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        return probe.connect_ex((host, port)) == 0


def port_from_file(file: Path) -> int:
    """The port stored in `file`; the first time one is chosen that no other cluster stored."""
    if file.exists():
        return int(file.read_text())
    (port,) = choose_ports(
        1,
        taken=set(_stored_ports(file.parent.parent)),
        floor=LOWEST,
        ceiling=_COMPONENTS,
        is_free=is_free,
        rng=random.Random(),
    )
    files.write_atomically(file, str(port).encode())
    return port


def _stored_ports(root: Path) -> Iterator[int]:
    for other in root.glob("*/*-port"):
        with contextlib.suppress(FileNotFoundError):  # its cluster was removed meanwhile
            yield int(other.read_text())
