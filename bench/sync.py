"""Row `sync`: 20 of 10 000 files of a gateway changed, beside what people use instead.

Two ways to compare with, from the same server onto the same disk:

- a work tree that pulls, and `rsync -a --delete` from it into the data directory;
- what a git-sync sidecar does: every commit in a fresh work tree, then the same rsync,
  which copies everything because every file of a fresh work tree has a new time.

All start from the commit before and end with all files in place. Ours also proves every
byte by its id, keeps what it replaces, and survives a power cut at any moment; the others
do none of that. On one machine most of the time goes to git's own processes: `floor` is
what the git children of ours took, so nothing can be faster that calls git the same way.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.figure import Figure, Goal, at_least, median
from bench.testbed import Testbed
from tests.support.gateways.engine_harness import SERVICE, EngineHarness
from tests.support.git.http_server import commit_files
from windlass.gateways.agent.interrupt import Interrupt
from windlass.git.format.remote import Remote
from windlass_dev.git_server.bare_repositories import git_environment
from windlass_dev.programs import debian_packages

FILES = 10_000
CHANGED = 20
_ROUNDS = 5


def measure(testbed: Testbed) -> Iterator[Figure]:
    """How often faster a small change reaches the disk, and what it costs."""
    with testbed.progress.step("sync: rsync out of its Debian package"):
        rsync = _rsync(testbed)
    directory = testbed.directory / "sync"
    directory.mkdir()
    with _site(directory) as (site, url):
        with testbed.progress.step(f"sync: first {FILES} files, all ways"):
            ours = _Ours(site)
            pulling, fresh = _Pulling(url, directory, rsync), _Fresh(url, directory, rsync)
            ways = (_Timed(ours.sync), _Timed(pulling.sync), _Timed(fresh.sync))
        for turn in range(1, _ROUNDS + 1):
            with testbed.progress.step(f"sync: round {turn} of {_ROUNDS}"):
                site.commit({_path(n * 499): _content(n * 499, turn) for n in range(CHANGED)})
                for way in ways:
                    way.go()
        assert pulling.files() == fresh.files() == FILES
    yield _figure("git pull + rsync -a --delete", ways[0], ways[1], ours.floor, at_least(1))
    yield _figure(
        "a fresh work tree + rsync -a --delete", ways[0], ways[2], ours.floor, at_least(8)
    )


@dataclass
class _Timed:
    """One way to bring a commit over, with the seconds and the CPU seconds of each time."""

    work: Callable[[], None]
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def go(self) -> None:
        began, used = time.perf_counter(), _cpu_seconds()
        self.work()
        self.seconds.append(time.perf_counter() - began)
        self.cpu.append(_cpu_seconds() - used)


def _figure(
    name: str, ours: _Timed, theirs: _Timed, floor: list[float], goal: Goal | None = None
) -> Figure:
    return Figure(
        "sync",
        f"{CHANGED} of {FILES} files changed beside {name}",
        f"{median(ours.seconds):.2f} s",
        median(theirs.seconds) / median(ours.seconds),
        "x faster",
        f"{median(theirs.seconds):.2f} s",
        goal,
        f"medians of {_ROUNDS} rounds, from the order to the last file and the manifest; "
        f"CPU {median(ours.cpu):.2f} s beside {median(theirs.cpu):.2f} s; "
        f"git's own children take {median(floor):.2f} s of ours",
    )


def _path(number: int) -> str:
    return f"{SERVICE}/projects/line/views/{number // 100:03}/{number:05}.json"


def _content(number: int, turn: int) -> str:
    return f'{{"number": {number}, "turn": {turn}, "text": "{"x" * 1500}"}}\n'


def _cpu_seconds() -> float:
    """Of this process and of all its children that have ended; the server is not among them."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


class _Ours:
    """The agent's engine; `floor` has the seconds that git children took in each sync."""

    def __init__(self, site: EngineHarness) -> None:
        self._site = site
        self.floor: list[float] = []
        self.sync()
        self.floor.clear()

    def sync(self) -> None:
        site, order = self._site, self._site.sync_request()
        in_git = 0.0
        run = site.store._git.run

        async def timed(*args: object, **kwargs: object) -> object:
            nonlocal in_git
            began = time.perf_counter()
            try:
                return await run(*args, **kwargs)  # type: ignore[arg-type]
            finally:
                in_git += time.perf_counter() - began

        async def synced() -> None:
            await site.engine.sync(order, Interrupt())

        site.store._git.run = timed  # type: ignore[assignment,method-assign]
        try:
            asyncio.run(synced())
        finally:
            site.store._git.run = run  # type: ignore[method-assign]
        self.floor.append(in_git)


class _Pulling:
    """A work tree that pulls, and a copy that follows it."""

    def __init__(self, url: str, directory: Path, rsync: list[str]) -> None:
        self._tree = directory / "work-tree"
        self._copy = _Copy(directory / "pulled", rsync)
        _git("clone", "--quiet", url, str(self._tree))
        self._copy.follow(self._tree)

    def sync(self) -> None:
        _git("-C", str(self._tree), "pull", "--quiet")
        self._copy.follow(self._tree)

    def files(self) -> int:
        return self._copy.files()


class _Fresh:
    """A repository that checks every commit out anew, and a copy that follows it."""

    def __init__(self, url: str, directory: Path, rsync: list[str]) -> None:
        self._repository = directory / "fresh.git"
        self._trees = directory / "fresh"
        self._copy = _Copy(directory / "fresh-copy", rsync)
        self._turn = 0
        _git("clone", "--quiet", "--bare", "--depth=1", url, str(self._repository))
        self.sync()

    def sync(self) -> None:
        before, self._turn = self._turn, self._turn + 1
        git = ("-C", str(self._repository))
        _git(*git, "fetch", "--quiet", "--depth=1", "origin", "main")
        tree = self._trees / str(self._turn)
        _git(*git, "worktree", "add", "--quiet", "--detach", str(tree), "FETCH_HEAD")
        self._copy.follow(tree)
        if before:
            _git(*git, "worktree", "remove", "--force", str(self._trees / str(before)))

    def files(self) -> int:
        return self._copy.files()


class _Copy:
    """What stands for a gateway's data directory."""

    def __init__(self, path: Path, rsync: list[str]) -> None:
        path.mkdir()
        self._path = path
        self._rsync = rsync

    def follow(self, tree: Path) -> None:
        source = f"{tree / SERVICE / 'projects'}/"
        subprocess.run([*self._rsync, "-a", "--delete", source, str(self._path)], check=True)

    def files(self) -> int:
        return sum(1 for path in self._path.rglob("*.json") if path.is_file())


@dataclass(frozen=True, slots=True)
class _Served:
    """A server in a process of its own, so that it takes nothing from ours."""

    url: str

    def remote(self, name: str) -> Remote:
        del name
        return Remote.parse(self.url)


@contextlib.contextmanager
def _site(directory: Path) -> Iterator[tuple[EngineHarness, str]]:
    root = directory / "srv"
    server = subprocess.Popen(
        [sys.executable, "-m", "windlass", "dev", "git", f"--root={root}", "--create=site"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        repository = next(root.iterdir())
        commit_files(repository, {_path(number): _content(number, 0) for number in range(FILES)})
        site = EngineHarness(_Served(url), repository, directory / "data", directory)  # type: ignore[arg-type]
        try:
            yield site, url
        finally:
            site.close()
    finally:
        server.terminate()
        server.wait(10)


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, env=git_environment())


def _rsync(testbed: Testbed) -> list[str]:
    found = debian_packages.provide_packages("rsync", ["rsync"], testbed.progress)
    libraries = ":".join(str(path) for path in found.glob("usr/lib/*-linux-gnu"))
    return ["env", f"LD_LIBRARY_PATH={libraries}", str(found / "usr/bin/rsync")]
