"""Row `one-file`: a commit of one file on a small and on a large tree.

Both trees have three levels and 100 files per directory, so they differ in their number
of files alone; commits on the two alternate.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

from bench.figure import Figure, at_most, median
from bench.testbed import Testbed
from windlass.git.format.objects import Person
from windlass.git.push import write_commit
from windlass.git.store import Store
from windlass.git.trees import edit_tree

SMALL, LARGE = 1_000, 50_000
_COMMITS = 60
_PERSON = Person("Bench", "bench@windlass.invalid")


class Branch:
    """A line of commits in a store of its own."""

    def __init__(self, testbed: Testbed, name: str) -> None:
        self._store = Store.open(testbed.directory / f"{name}.store")
        self._tree: str | None = None
        self._tip: str | None = None

    def commit(self, edits: dict[str, bytes]) -> float:
        """Seconds that one commit of these files took."""
        now = datetime.now(UTC)
        began = time.perf_counter()
        tree = edit_tree(self._store, self._tree, edits).tree
        self._tip = write_commit(
            self._store,
            tree=tree,
            parents=[self._tip] if self._tip else [],
            author=_PERSON,
            author_time=now,
            committer=_PERSON,
            commit_time=now,
            message="bench\n",
        )
        seconds = time.perf_counter() - began
        self._tree = tree
        return seconds


def measure(testbed: Testbed) -> Iterator[Figure]:
    """How much slower a commit becomes on a tree of fifty times the size."""
    branches = {}
    for files in (SMALL, LARGE):
        with testbed.progress.step(f"one-file: a tree of {files} files"):
            branches[files] = Branch(testbed, f"one-file-{files}")
            branches[files].commit({path(number): content(number) for number in range(files)})
    seconds: dict[int, list[float]] = {files: [] for files in branches}
    for turn in range(_COMMITS):
        for files, branch in branches.items():
            number = turn * (files // _COMMITS)
            seconds[files].append(branch.commit({path(number): content(number + files)}))
    small, large = median(seconds[SMALL]), median(seconds[LARGE])
    yield Figure(
        "one-file",
        f"one-file commit, tree of {LARGE} beside {SMALL} files",
        f"{large * 1e3:.2f} ms",
        large / small,
        "x growth",
        f"{small * 1e3:.2f} ms",
        at_most(1.5),
        f"medians of {_COMMITS} alternating commits; the other is ours on the small tree",
    )


def path(number: int) -> str:
    """A path three directories deep with 100 files to a directory."""
    return f"mirror/{number // 10_000:02}/{number // 100 % 100:02}/file-{number % 100:02}.yaml"


def content(number: int) -> bytes:
    """A file of some 600 bytes that no other file equals."""
    rows = (f"  key-{row:02}: value {number} of row {row}\n" for row in range(18))
    return f"apiVersion: v1\nkind: ConfigMap\nserial: {number}\ndata:\n{''.join(rows)}".encode()
