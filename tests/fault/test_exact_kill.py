"""SIGKILL at every side effect of an exact store: the next run ends as a quiet one."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gitserver import commit_files, files_at, serving
from windlass.git.format import objects

PLACES = (
    "git.fetch.after",
    "git.fetch.before",
    "git.exact.keep.after",
    "git.exact.keep.before",
    "git.rebuild.after",
    "git.rebuild.before",
)
_CAP = 600_000


class Story:
    """The same commits into a store, again and again."""

    def __init__(self, tmp_path: Path, url: str, commits: list[str], files: str) -> None:
        self._arguments = [url, str(tmp_path / "store"), str(tmp_path), str(_CAP), *commits]
        self.visited = tmp_path / "visited"
        self.commits = commits
        self.files = files

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tests.fault.exact_story", *self._arguments],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    """Six commits of some 57 kB each: the last one finds the store more than half full."""
    source = random.Random(1)
    with serving(tmp_path / "srv") as served:
        repository = served.create("a", {"base/f": "same"})
        commits = [
            commit_files(repository, {"x": "".join(source.choices("0123456789abcdef", k=100_000))})
            for _ in range(6)
        ]
        found = {
            path: objects.blob_id(text.encode()) for path, text in files_at(repository).items()
        }
        files = str(sorted(found.items())).removesuffix("]")
        yield Story(tmp_path, served.server.url("a"), commits, files)


def test_every_place_is_known(story: Story) -> None:
    """The list above is what a quiet run passes."""
    assert story.run(WINDLASS_FAILPOINT_LOG=str(story.visited)).returncode == 0
    assert set(story.visited.read_text().split()) == set(PLACES)


@pytest.mark.parametrize("place", PLACES)
def test_killed_on_the_way_the_end_is_the_same(story: Story, place: str) -> None:
    """Whatever is left behind, the next run has every commit whole."""
    later = "" if "rebuild" in place else "@2"
    assert story.run(WINDLASS_FAILPOINTS=f"{place}=kill{later}").returncode == -9
    again = story.run()
    assert again.returncode == 0, again.stderr
    files, targets = again.stdout.split("] ")
    assert files == story.files
    assert all(commit in targets for commit in story.commits[-3:])
