"""Lets applies die at named places: learns the places first, then visits each of them."""

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

KILLED = -9
_EFFECTS = ("create", "keep", "link", "mkdir", "rename", "rmdir", "unlink", "write")
_CHANGING = {"gateways.lock.beat.after", *(f"gateways.tree.{name}.after" for name in _EFFECTS)}
_HERE = Path(__file__).resolve().parents[3]


class CrashRunner:
    """A server of children that run one apply each."""

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
        held = data / "held"
        eventually(held.exists, "the lock is held")
        held.unlink()
        return pid

    def await_end(self) -> int:
        """The exit code of the process that held the lock."""
        assert self._server.stdout is not None
        return int(self._server.stdout.readline())

    def empty(self) -> Path:
        """A data directory with nothing in it."""
        self._count += 1
        made = self._directory / f"empty-{self._count}"
        made.mkdir()
        return made

    def copy(self, template: Path) -> Path:
        """A copy of a data directory, hard links included."""
        self._count += 1
        copied = self._directory / f"copy-{self._count}"
        copy_tree(template, copied)
        return copied

    def kill_points(self, template: Path, act: str, *, armed: str = "", **extra: str) -> list[str]:
        """The deaths that `act` can die, as `name=kill@visit`.

        Every place is there with its first visit. Of later visits those are left out that
        find the disk as the visit before left it: to the disk they are the same death.
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
    for place in visits:
        counts[place] += 1
        is_changed = is_changed or place in _CHANGING
        if is_changed or counts[place] == 1:
            is_changed = False
            yield f"{place}=kill@{counts[place]}"


def copy_tree(source: Path, target: Path) -> None:
    """Copy a directory so that two names of one file stay two names of one file."""
    names: dict[int, Path] = {}
    for directory, _, files in os.walk(source):
        here = target / Path(directory).relative_to(source)
        here.mkdir()
        for name in files:
            path = Path(directory) / name
            inode = path.stat().st_ino
            if inode in names:
                (here / name).hardlink_to(names[inode])
            else:
                names[inode] = Path(shutil.copy2(path, here / name))


@contextmanager
def memory_directory() -> Iterator[Path]:
    """A directory whose syncs cost nothing: a killed process does not need a real disk."""
    memory = Path("/dev/shm")
    base = memory if os.access(memory, os.W_OK) else None
    root = Path(tempfile.mkdtemp(prefix="windlass-apply-", dir=base))
    try:
        yield root
    finally:
        shutil.rmtree(root)


@contextmanager
def crash_runner(directory: Path) -> Iterator[CrashRunner]:
    """Start the server; it ends with the block."""
    directory.mkdir(parents=True, exist_ok=True)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.fault.apply_child"],
        cwd=_HERE,
        env={**os.environ, "PYTHONPATH": f"{_HERE}:{_HERE / 'src'}"},
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
        server.wait(timeout=10)
        server.stdout.close()
