"""Kills applies at named failpoints: records the failpoints first, then kills at each of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes.operator import eventually
from tests.support.processes.polling import DEADLINE_SECONDS

KILLED = -9
_EFFECTS = ("create", "keep", "link", "mkdir", "rename", "rmdir", "unlink", "write")
_CHANGES_DISK = {"gateways.lock.beat.after", *(f"gateways.tree.{name}.after" for name in _EFFECTS)}
_ROOT = Path(__file__).resolve().parents[3]


class CrashRunner:
    """A server that runs each apply in a child process."""

    def __init__(self, server: subprocess.Popen[str], directory: Path) -> None:
        self._server = server
        self._directory = directory
        self._count = 0

    def run(self, data: Path, act: str, *, armed: str = "", log: str = "", **extra: str) -> int:
        """The exit code of a fresh process that starts on `data` and then does `act`."""
        request = {"data": str(data), "act": act, "armed": armed, "log": log, **extra}
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def hold(self, data: Path) -> int:
        """The id of a process that holds the lock of `data` until it is killed."""
        pid = self.run(data, "hold")
        marker = data / "held"
        eventually(marker.exists, "the lock is held")
        marker.unlink()
        return pid

    def await_end(self) -> int:
        """The exit code of the process that held the lock."""
        assert self._server.stdout is not None
        return int(self._server.stdout.readline())

    def empty(self) -> Path:
        """A data directory with nothing in it."""
        self._count += 1
        directory = self._directory / f"empty-{self._count}"
        directory.mkdir()
        return directory

    def copy(self, template: Path) -> Path:
        """A copy of a data directory, hard links included."""
        self._count += 1
        copied = self._directory / f"copy-{self._count}"
        copy_tree(template, copied)
        return copied

    def kill_points(self, template: Path, act: str, *, armed: str = "", **extra: str) -> list[str]:
        """The points at which `act` can be killed, as `name=kill@visit`.

        Every failpoint is listed with its first visit. Later visits are left out if nothing was
        written since the visit before: the disk is the same, so the kill is, too.
        """
        visited = self._directory / "visited"
        visited.unlink(missing_ok=True)
        data = self.copy(template)
        self.run(data, act, armed=armed, log=str(visited), **extra)
        shutil.rmtree(data)
        return list(_distinct(visited.read_text().split()))


def _distinct(visits: list[str]) -> Iterator[str]:
    counts: Counter[str] = Counter()
    is_changed = True
    for name in visits:
        counts[name] += 1
        is_changed = is_changed or name in _CHANGES_DISK
        if is_changed or counts[name] == 1:
            is_changed = False
            yield f"{name}=kill@{counts[name]}"


def copy_tree(source: Path, target: Path) -> None:
    """Copy a directory, hard links between its files included."""
    copies: dict[int, Path] = {}
    for directory, _, files in os.walk(source):
        target_directory = target / Path(directory).relative_to(source)
        target_directory.mkdir()
        for name in files:
            path = Path(directory) / name
            inode = path.stat().st_ino
            if inode in copies:
                (target_directory / name).hardlink_to(copies[inode])
            else:
                copies[inode] = Path(shutil.copy2(path, target_directory / name))


@contextmanager
def memory_directory() -> Iterator[Path]:
    """A directory in memory: a killed process does not need a real disk."""
    memory = Path("/dev/shm")
    base = memory if os.access(memory, os.W_OK) else None
    root = Path(tempfile.mkdtemp(prefix="windlass-apply-", dir=base))
    try:
        yield root
    finally:
        shutil.rmtree(root)


@contextmanager
def crash_runner(directory: Path) -> Iterator[CrashRunner]:
    """Start the server; it is stopped at the end of the block."""
    directory.mkdir(parents=True, exist_ok=True)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.fault.apply_child"],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": f"{_ROOT}:{_ROOT / 'src'}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield CrashRunner(server, directory)
    finally:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.close()
        server.wait(timeout=DEADLINE_SECONDS)
        server.stdout.close()
