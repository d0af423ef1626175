"""SIGKILL at every side effect of an exact store: the next run ends as a quiet one."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.git.http_server import commit_files, files_at, running_git_server
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
    """The same commits into one store after the other, each time by a fresh process."""

    def __init__(self, url: str, commits: list[str], files: str) -> None:
        self._url = url
        self.commits = commits
        self.files = files
        self._teller = subprocess.Popen(
            [sys.executable, "-m", "tests.fault.exact_story"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, place: Path, **environment: str) -> tuple[int, str]:
        """The exit code of a process that told it into the store at `place`, and its words."""
        said = place / "said"
        request = {
            "arguments": [self._url, str(place / "store"), str(place), str(_CAP), *self.commits],
            "environment": environment,
            "said": str(said),
        }
        assert self._teller.stdin is not None
        assert self._teller.stdout is not None
        self._teller.stdin.write(json.dumps(request) + "\n")
        self._teller.stdin.flush()
        code = int(self._teller.stdout.readline())
        return code, said.read_text() if said.exists() else ""

    def end(self) -> None:
        self._teller.communicate(timeout=10)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Six commits of some 57 kB each: the last one finds the store more than half full."""
    source = random.Random(1)
    with running_git_server(tmp_path_factory.mktemp("srv")) as served:
        repository = served.create("a", {"base/f": "same"})
        commits = [
            commit_files(repository, {"x": source.randbytes(50_000).hex()}) for _ in range(6)
        ]
        found = {
            path: objects.blob_id(text.encode()) for path, text in files_at(repository).items()
        }
        files = str(sorted(found.items())).removesuffix("]")
        told = Story(served.server.url("a"), commits, files)
        yield told
        told.end()


def test_every_place_is_known(story: Story, tmp_path: Path) -> None:
    """The list above is what a quiet run passes."""
    visited = tmp_path / "visited"
    assert story.run(tmp_path, WINDLASS_FAILPOINT_LOG=str(visited))[0] == 0
    assert set(visited.read_text().split()) == set(PLACES)


@pytest.mark.parametrize("place", PLACES)
def test_killed_on_the_way_the_end_is_the_same(story: Story, place: str, tmp_path: Path) -> None:
    """Whatever is left behind, the next run has every commit whole."""
    later = "" if "rebuild" in place else "@2"
    assert story.run(tmp_path, WINDLASS_FAILPOINTS=f"{place}=kill{later}") == (-9, "")
    code, said = story.run(tmp_path)
    assert code == 0, said
    files, targets = said.split("] ")
    assert files == story.files
    assert all(commit in targets for commit in story.commits[-3:])
