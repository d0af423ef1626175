"""SIGKILL at every side effect of a commit store: the next run ends like an undisturbed one."""

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

FAILPOINTS = (
    "git.fetch.after",
    "git.fetch.before",
    "git.exact.keep.after",
    "git.exact.keep.before",
    "git.rebuild.after",
    "git.rebuild.before",
)
_CAP = 600_000


class CommitStoreRunner:
    """Fetches the same commits into one store after the other, each time in a fresh process."""

    def __init__(self, url: str, commits: list[str], files: str) -> None:
        self._url = url
        self.commits = commits
        self.files = files
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fault.commit_store_runner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, directory: Path, **environment: str) -> tuple[int, str]:
        """Exit code and output of a process that fetched them into the store in `directory`."""
        output = directory / "output"
        request = {
            "arguments": [
                self._url,
                str(directory / "store"),
                str(directory),
                str(_CAP),
                *self.commits,
            ],
            "environment": environment,
            "output": str(output),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return code, output.read_text() if output.exists() else ""

    def end(self) -> None:
        self._process.communicate(timeout=10)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommitStoreRunner]:
    """Six commits of some 57 kB each: the last one finds the store more than half full."""
    source = random.Random(1)
    with running_git_server(tmp_path_factory.mktemp("srv")) as served:
        repository = served.create("a", {"base/f": "same"})
        commits = [
            commit_files(repository, {"x": source.randbytes(50_000).hex()}) for _ in range(6)
        ]
        blobs = {
            path: objects.blob_id(text.encode()) for path, text in files_at(repository).items()
        }
        files = str(sorted(blobs.items())).removesuffix("]")
        runner = CommitStoreRunner(served.server.url("a"), commits, files)
        yield runner
        runner.end()


def test_the_failpoint_list_is_complete(runner: CommitStoreRunner, tmp_path: Path) -> None:
    """The list above holds every failpoint that an undisturbed run passes."""
    visited = tmp_path / "visited"
    assert runner.run(tmp_path, WINDLASS_FAILPOINT_LOG=str(visited))[0] == 0
    assert set(visited.read_text().split()) == set(FAILPOINTS)


@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_a_killed_fetch_is_completed_by_the_next_run(
    runner: CommitStoreRunner, failpoint: str, tmp_path: Path
) -> None:
    """Whatever the killed run leaves behind, the next one has every commit complete."""
    later = "" if "rebuild" in failpoint else "@2"
    assert runner.run(tmp_path, WINDLASS_FAILPOINTS=f"{failpoint}=kill{later}") == (-9, "")
    code, output = runner.run(tmp_path)
    assert code == 0, output
    files, targets = output.split("] ")
    assert files == runner.files
    assert all(commit in targets for commit in runner.commits[-3:])
