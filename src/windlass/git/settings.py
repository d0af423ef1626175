"""Settings of git in this process: programs, allowed hosts, deadlines and limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class GitSettings:
    """Limits and permissions of git children."""

    program: str = "git"
    """Name or path of git."""
    ssh_program: str = "ssh"
    """Name or path of OpenSSH."""
    run_directory: Path | None = None
    """Directory for keys during a call; None: memory-backed, where the machine has such."""
    insecure_hosts: frozenset[str] = frozenset()
    """HOST or HOST:PORT that http and git:// may be used for, also at refused addresses."""
    local_hosts: frozenset[str] = frozenset()
    """HOST or HOST:PORT that may be at refused addresses, by https and ssh."""
    refused_cidrs: tuple[str, ...] = ()
    """Address blocks, beside those of this machine, that no remote may be at."""
    api_server: tuple[str, int] | None = None
    """Host and port of the API server, where no remote may be, whatever host is listed."""
    allow_file: bool = False
    """Whether file:// remotes are allowed; for development only."""
    list_timeout_seconds: float = 30.0
    """Deadline of `ls-remote` and of local commands."""
    fetch_timeout_seconds: float = 300.0
    """Deadline of a fetch and of other work on a whole store."""
    push_timeout_seconds: float = 60.0
    """Deadline of a push."""
    connect_timeout_seconds: int = 10
    """Deadline of an ssh connection attempt."""
    low_speed_bytes: int = 100
    """Bytes per second below which an http transfer is slow."""
    low_speed_seconds: int = 30
    """Seconds after which a slow http transfer is aborted."""
    stdout_limit_bytes: int = 64 * _MIB
    """Bytes on stdout after which a child is killed, unless they go to a sink."""
    stderr_limit_bytes: int = 1 * _MIB
    """Bytes on stderr after which a child is killed."""
    memory_limit_bytes: int = 4096 * _MIB
    """Address space of each process of a child."""
    file_limit_bytes: int = 4096 * _MIB
    """Largest file that a child may write."""

    def allows_insecure(self, host: str, port: int) -> bool:
        """Whether a transport without encryption may be used for `host`."""
        return _lists(self.insecure_hosts, host, port)

    def allows_any_address(self, host: str, port: int) -> bool:
        """Whether `host` may be at an address that is refused for other hosts."""
        return _lists(self.insecure_hosts | self.local_hosts, host, port)


def server_endpoint(url: str) -> tuple[str, int]:
    """Host and port of an API server by its URL, as `GitSettings.api_server` takes them."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)


def _lists(hosts: frozenset[str], host: str, port: int) -> bool:
    bare = host.strip("[]").lower()
    listed = {name.lower() for name in hosts}
    return not listed.isdisjoint({bare, f"[{bare}]", f"{bare}:{port}", f"[{bare}]:{port}"})
