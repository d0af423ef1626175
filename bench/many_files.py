"""Row `many-files`: 10 000 files in one commit, beside git in a work tree.

The files lie in the work tree before git's clock starts; a real user would have had to
write them first.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, at_least, median
from bench.one_file import Branch, content, path
from bench.testbed import Testbed
from windlass_dev.git_server.bare_repositories import git_environment

FILES = 10_000
_ROUNDS = 3


def measure(testbed: Testbed) -> Iterator[Figure]:
    """How often faster the commit is."""
    files = {path(number): content(number) for number in range(FILES)}
    ours: list[float] = []
    theirs: list[float] = []
    for turn in range(_ROUNDS):
        with testbed.progress.step(f"many-files: round {turn + 1} of {_ROUNDS}"):
            ours.append(Branch(testbed, f"many-files-{turn}").commit(files))
            theirs.append(_work_tree(testbed.directory / f"work-{turn}", files))
    yield Figure(
        "many-files",
        f"{FILES} files in one commit beside git add + commit",
        f"{median(ours):.2f} s",
        median(theirs) / median(ours),
        "x faster",
        f"{median(theirs):.2f} s",
        at_least(5),
        f"medians of {_ROUNDS} rounds; writing the work tree is not counted",
    )


def _work_tree(directory: Path, files: dict[str, bytes]) -> float:
    """Seconds that `git add -A` and `git commit` took in a new work tree."""
    for name, data in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)
    git(directory, "init", "--quiet", "--initial-branch=main")
    began = time.perf_counter()
    git(directory, "add", "-A")
    git(directory, "commit", "--quiet", "-m", "bench")
    return time.perf_counter() - began


def git(directory: Path, *arguments: str) -> None:
    """Plain git in `directory`, with an author and without a configuration."""
    people = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", "Bench"), ("EMAIL", "bench@windlass.invalid"))
    }
    subprocess.run(
        ["git", "-C", str(directory), *arguments],
        env=git_environment() | people,
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
    )
