"""Names of lease holders that tell whether a local one is dead.

`host_world_pid_nonce`: `world` stands for this boot of this machine and this process
namespace, so a pid is only looked up where it means something. A holder of another
world, or of a form we did not write, is never said to be dead: its lease expires.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = Path("/proc/self/ns/pid")


@dataclass(frozen=True, slots=True)
class Holder:
    """One process as a lease names it."""

    host: str
    world: str
    pid: int
    nonce: str

    def __str__(self) -> str:
        return f"{self.host}_{self.world}_{self.pid}_{self.nonce}"

    @classmethod
    def local(cls) -> Holder:
        """The running process; the nonce tells it from an earlier one with its pid."""
        return cls(socket.gethostname(), _world(), os.getpid(), secrets.token_hex(4))

    @classmethod
    def parse(cls, identity: str) -> Holder | None:
        parts = identity.rsplit("_", 3)
        if len(parts) != 4 or not parts[2].isdecimal():
            return None
        return cls(parts[0], parts[1], int(parts[2]), parts[3])

    def outlived(self, identity: str) -> bool:
        """Whether `identity` is a process of our world that no longer runs."""
        return self.judges(identity, runs=_runs)

    def judges(self, identity: str, *, runs: Callable[[int], bool]) -> bool:
        other = Holder.parse(identity)
        if other is None or not other.world or (other.host, other.world) != (self.host, self.world):
            return False
        if other.pid == self.pid:
            return other.nonce != self.nonce
        return not runs(other.pid)


def _world() -> str:
    """Empty where the machine does not say which world this is: then nobody is judged."""
    try:
        identity = f"{_BOOT.read_text()}{_PROCESSES.readlink()}"
    except OSError:
        return ""
    return hashlib.blake2b(identity.encode(), digest_size=4).hexdigest()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
