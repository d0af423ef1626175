"""Runs `windlass dev` as a user would, and finds leftovers of a cluster."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path

from tests.support.processes import windlass_command
from windlass_dev import directories


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `windlass dev` to its end."""
    return windlass_command.run(["dev", *arguments], {**os.environ, **environment})


def kill(pid: int) -> None:
    """SIGKILL `pid` and wait until it is dead."""
    os.kill(pid, signal.SIGKILL)
    wait_for_exit(pid)


def wait_for_exit(pid: int) -> None:
    """Wait until `pid` has exited; its parent reaps it."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        assert poll.poll(30_000), f"process {pid} did not end"
    finally:
        os.close(descriptor)


def is_alive(pid: int) -> bool:
    """Whether `pid` is running; a zombie is not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def find_leftovers(name: str) -> list[str]:
    """All traces of a cluster `name`: files, locks, processes."""
    directory = directories.cluster_directory(name)
    files = [str(path) for path in (directory, directories.lock_file(name)) if path.exists()]
    return files + [f"process {pid}" for pid in find_pids(directory)]


def find_pids(directory: Path) -> list[int]:
    """Every live process with a file of `directory` on its command line."""
    entries = (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())
    wanted = f"{directory}/".encode()
    return [int(entry.name) for entry in entries if wanted in command_line(entry.name)]


def command_line(pid: str) -> bytes:
    """The command line of a process; empty if it ended since it was listed, as git children do."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
