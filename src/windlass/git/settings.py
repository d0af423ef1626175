"""How git may be used in this process: limits, deadlines and what is allowed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class GitSettings:
    """`run_directory` holds keys during a call; by default memory-backed, where there is one."""

    program: str = "git"
    ssh_program: str = "ssh"
    run_directory: Path | None = None
    insecure_hosts: frozenset[str] = frozenset()
    """HOST or HOST:PORT that may be reached by http and git, and at refused addresses."""
    local_hosts: frozenset[str] = frozenset()
    """HOST or HOST:PORT that may be at refused addresses, with the secure transports."""
    refused_cidrs: tuple[str, ...] = ()
    """Blocks of addresses, beside those of this machine, that no remote may be at."""
    api_server: tuple[str, int] | None = None
    """Host and port of the API server, where no remote may be, whatever host is listed."""
    allow_file: bool = False
    list_timeout_seconds: float = 30.0
    fetch_timeout_seconds: float = 300.0
    push_timeout_seconds: float = 60.0
    connect_timeout_seconds: int = 10
    low_speed_bytes: int = 100
    low_speed_seconds: int = 30
    stdout_limit_bytes: int = 64 * _MIB
    stderr_limit_bytes: int = 1 * _MIB
    memory_limit_bytes: int = 4096 * _MIB
    file_limit_bytes: int = 4096 * _MIB

    def allows_insecure(self, host: str, port: int) -> bool:
        """Whether a transport without protection may be used towards `host`."""
        return _lists(self.insecure_hosts, host, port)

    def allows_any_address(self, host: str, port: int) -> bool:
        """Whether `host` may be at an address that is refused to others."""
        return _lists(self.insecure_hosts | self.local_hosts, host, port)


def _lists(hosts: frozenset[str], host: str, port: int) -> bool:
    bare = host.strip("[]")
    return not hosts.isdisjoint({bare, f"[{bare}]", f"{bare}:{port}", f"[{bare}]:{port}"})
