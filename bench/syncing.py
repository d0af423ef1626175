"""Row `sync`: 20 of 10 000 files of a gateway changed, beside `git pull` and `rsync`.

Both start from the commit before and end with all files in place; both servers, disks and
repositories are the same. Ours also proves every byte by its id, keeps what it replaces,
and survives a power cut at any moment; the others do none of that.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, at_least, median
from bench.ground import Ground
from tests.support.engine_site import SERVICE, EngineSite, engine_site
from windlass.dev.git_repositories import child_environment
from windlass.dev.node import packages
from windlass.gateways.agent.interrupt import Interrupt

FILES = 10_000
CHANGED = 20
_ROUNDS = 5


def measure(ground: Ground) -> Iterator[Figure]:
    """How often faster a small change reaches the disk, and what it costs."""
    with ground.progress.step("sync: rsync out of its Debian package"):
        rsync = _rsync(ground)
    directory = ground.directory / "sync"
    directory.mkdir()
    files = {_path(number): _content(number, 0) for number in range(FILES)}
    with engine_site(directory, files) as site:
        with ground.progress.step(f"sync: first {FILES} files, both ways"):
            _ours(site)
            other = _Other(site, directory, rsync)
        ours: list[float] = []
        theirs: list[float] = []
        for turn in range(1, _ROUNDS + 1):
            with ground.progress.step(f"sync: round {turn} of {_ROUNDS}"):
                site.commit({_path(n * 499): _content(n * 499, turn) for n in range(CHANGED)})
                ours.append(_ours(site))
                theirs.append(other.seconds())
        assert other.files() == FILES
    yield Figure(
        "sync",
        f"{CHANGED} of {FILES} files changed beside git pull + rsync -a --delete",
        f"{median(ours):.2f} s",
        median(theirs) / median(ours),
        "x faster",
        f"{median(theirs):.2f} s",
        at_least(5),
        f"medians of {_ROUNDS} rounds; from the order to the last file and the manifest",
    )


def _path(number: int) -> str:
    return f"{SERVICE}/projects/line/views/{number // 100:03}/{number:05}.json"


def _content(number: int, turn: int) -> str:
    return f'{{"number": {number}, "turn": {turn}, "text": "{"x" * 1500}"}}\n'


def _ours(site: EngineSite) -> float:
    began = time.perf_counter()
    asyncio.run(site.engine.sync(site.order(), Interrupt()))
    return time.perf_counter() - began


class _Other:
    """A work tree that pulls, and a copy that follows it."""

    def __init__(self, site: EngineSite, directory: Path, rsync: list[str]) -> None:
        self._tree = directory / "work-tree"
        self._copy = directory / "copy"
        self._copy.mkdir()
        self._rsync = rsync
        _git("clone", "--quiet", site.served.server.url("site"), str(self._tree))
        self.seconds()

    def seconds(self) -> float:
        began = time.perf_counter()
        _git("-C", str(self._tree), "pull", "--quiet")
        source = f"{self._tree / SERVICE / 'projects'}/"
        subprocess.run([*self._rsync, "-a", "--delete", source, str(self._copy)], check=True)
        return time.perf_counter() - began

    def files(self) -> int:
        return sum(1 for path in self._copy.rglob("*.json") if path.is_file())


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, env=child_environment())


def _rsync(ground: Ground) -> list[str]:
    found = packages.unpacked("rsync", ["rsync"], ground.progress)
    libraries = ":".join(str(path) for path in found.glob("usr/lib/*-linux-gnu"))
    return ["env", f"LD_LIBRARY_PATH={libraries}", str(found / "usr/bin/rsync")]
