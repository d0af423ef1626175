"""Row `racing`: a backlog of commits beside another writer who pushes to the branch all the time.

The other writer is plain git in a work tree of its own: twice a second one commit, `git pull
--rebase` and `git push`, again until it lands. Ours is one branch worker with changes of four
people, each a commit of its own, from the closed window to the last commit on the server.
Beside it stands who has as many commits in a work tree and does `git pull --rebase && git push`
until that succeeds. Both face the same writer on a repository of their own, one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, at_most, median
from bench.many_files import git
from bench.testbed import Testbed
from tests.support.git.http_server import PASSWORD
from tests.support.git.http_server import git as bare_git
from tests.support.reverser import branch_worker
from windlass.reverser.attribution.author import Actor
from windlass.reverser.attribution.record_join import AuthorVerdict, Observation

COMMITS = 200
PER_SECOND = 2.0
_PEOPLE = ("alice", "bob", "carol", "dave")
_ROUNDS = 3
_LONGEST_SECONDS = 60.0


def measure(testbed: Testbed) -> Iterator[Figure]:
    """Seconds until all of the backlog is on the server."""
    ours: list[float] = []
    theirs: list[float] = []
    for turn in range(_ROUNDS):
        with testbed.progress.step(f"racing: round {turn + 1} of {_ROUNDS}"):
            ours.append(asyncio.run(_worker(testbed, turn)))
            theirs.append(_work_tree(testbed, turn))
    yield Figure(
        "racing",
        f"{COMMITS} commits beside {PER_SECOND:g} foreign pushes a second",
        f"{median(ours):.1f} s",
        median(ours),
        "s",
        f"{median(theirs):.1f} s",
        at_most(10),
        f"medians of {_ROUNDS} rounds, beside git pull --rebase && git push, given up after "
        f"{_LONGEST_SECONDS:g} s; the slowest of ours took {max(ours):.1f} s",
    )


async def _worker(testbed: Testbed, turn: int) -> float:
    directory = testbed.directory / f"racing-ours-{turn}"
    directory.mkdir()
    async with branch_worker.running_worker(testbed.git, directory) as site:
        site.worker._publisher.judge = _judge
        folder = await site.open_folder(window_seconds=0.0)
        with _foreign_writer(testbed, site.repository, directory):
            for number in range(COMMITS):
                site.add_update(folder, f"object-{number}", f"a: {number}\n")
            began = time.perf_counter()
            async with asyncio.timeout(_LONGEST_SECONDS):
                while folder.window:
                    await site.write_group()
            seconds = time.perf_counter() - began
        authors = Counter(bare_git(site.repository, "log", "--format=%an", "main").split())
        assert all(authors[name] == COMMITS // len(_PEOPLE) for name in _PEOPLE), authors
    return seconds


def _judge(observation: Observation) -> AuthorVerdict:
    number = int(observation.uid.rpartition("-")[2])
    return AuthorVerdict("exact", Actor(_PEOPLE[number % len(_PEOPLE)]))


def _work_tree(testbed: Testbed, turn: int) -> float:
    directory = testbed.directory / f"racing-theirs-{turn}"
    directory.mkdir()
    repository = testbed.git.create(f"racing-theirs-{turn}.git", {"README.md": "hello\n"})
    tree = _cloned(testbed, repository, directory / "tree")
    for number in range(COMMITS):
        (tree / f"object-{number}.yaml").write_text(f"a: {number}\n")
        git(tree, "add", "-A")
        git(tree, "commit", "--quiet", "-m", f"object {number}")
    with _foreign_writer(testbed, repository, directory):
        began = time.perf_counter()
        while time.perf_counter() - began < _LONGEST_SECONDS and not _pushed(tree):
            pass
        return time.perf_counter() - began


@contextlib.contextmanager
def _foreign_writer(testbed: Testbed, repository: Path, directory: Path) -> Iterator[None]:
    """A writer who pushes at a steady pace, and has done so when this begins."""
    tree = _cloned(testbed, repository, directory / "foreign")
    writing, ending = threading.Event(), threading.Event()
    thread = threading.Thread(target=_write, args=(tree, writing, ending), daemon=True)
    thread.start()
    try:
        assert writing.wait(_LONGEST_SECONDS), "the other writer does not get to write"
        yield
    finally:
        ending.set()
        thread.join()


def _write(tree: Path, writing: threading.Event, ending: threading.Event) -> None:
    due, number = time.monotonic(), 0
    while not ending.wait(max(0.0, due - time.monotonic())):
        due, number = due + 1 / PER_SECOND, number + 1
        (tree / f"theirs-{number % 7}").write_text(f"{number}\n")
        git(tree, "add", "-A")
        git(tree, "commit", "--quiet", "-m", f"theirs {number}")
        while not ending.is_set() and not _pushed(tree):
            pass
        if number > 1:
            writing.set()


def _pushed(tree: Path) -> bool:
    git(tree, "pull", "--quiet", "--rebase")
    with contextlib.suppress(subprocess.CalledProcessError):
        git(tree, "push", "--quiet")
        return True
    return False


def _cloned(testbed: Testbed, repository: Path, tree: Path) -> Path:
    url = testbed.git.server.url(repository.name)
    git(repository, "clone", "--quiet", url.replace("://", f"://git:{PASSWORD}@"), str(tree))
    return tree
