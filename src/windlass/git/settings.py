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
    """Hosts that may be reached by http and git, and at loopback addresses."""
    local_hosts: frozenset[str] = frozenset()
    """Hosts that may be at loopback or link-local addresses, with the secure transports."""
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
