"""`windlass dev git` as a process of its own, used by plain git."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.git.http_server import (
    TOKEN,
    branch_tips,
    commit_files,
    running_git_server,
    wait_until,
)
from tests.support.processes.polling import DEADLINE_SECONDS
from windlass_dev.git_server import fault_injection
from windlass_dev.git_server.bare_repositories import git_environment
from windlass_dev.git_server.fault_injection import GitFault
from windlass_dev.git_server.git_backend import GitRequest

_COMMAND = (sys.executable, "-m", "windlass", "dev", "git", "--create=team/app")


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The URL the command prints."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    child = subprocess.Popen(
        [
            *_COMMAND,
            f"--root={tmp_path / 'srv'}",
            f"--token-file={tmp_path / 'token'}",
            f"--faults={tmp_path / 'fault'}",
        ],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    )
    assert child.stdout is not None
    try:
        yield child.stdout.readline().strip()
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGTERM)
        assert child.wait(DEADLINE_SECONDS) == 0
        child.stdout.close()


def _git(*args: str) -> subprocess.CompletedProcess[str]:
    environment = git_environment() | {"GIT_TERMINAL_PROMPT": "0"}
    header = f"http.extraHeader=Authorization: Bearer {TOKEN}"
    return subprocess.run(
        ["git", "-c", header, *args], env=environment, capture_output=True, text=True, timeout=60
    )


def test_clone_push_and_faults(tmp_path: Path, url: str) -> None:
    """Created repositories are served, new ones are created by a push, faults come from a file."""
    assert url.endswith("/team/app.git")
    repository = tmp_path / "srv" / "team" / "app.git"
    commit_files(repository, {"f": "1"})
    copy = tmp_path / "copy"
    assert _git("clone", "--quiet", url, str(copy)).returncode == 0
    assert (copy / "f").read_text() == "1"
    other = url.replace("team/app", "fresh")
    pushed = _git("-C", str(copy), "push", "--quiet", other, "HEAD:refs/heads/main")
    assert pushed.returncode == 0, pushed.stderr
    assert branch_tips(tmp_path / "srv" / "fresh.git") == branch_tips(repository)
    (tmp_path / "fault").write_text('{"mode": "reject", "text": "closed today"}')
    refused = _git("-C", str(copy), "push", other, "HEAD:refs/heads/second")
    assert "closed today" in refused.stderr


def test_an_endless_response_ends_with_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the client disconnects nothing is sent, so the server is free again."""
    sent = itertools.count()
    noise = fault_injection._noise

    def counted(request: GitRequest, number: int) -> bytes:
        next(sent)
        return noise(request, number)

    monkeypatch.setattr(fault_injection, "_noise", counted)
    with running_git_server(tmp_path) as served:
        served.create("app.git")
        served.server.faults.set(GitFault("endless"))
        where = f"{served.server.url('app.git')}/info/refs?service=git-upload-pack"
        with urllib.request.urlopen(where, timeout=DEADLINE_SECONDS) as answer:  # noqa: S310 - loopback
            assert answer.read(1 << 20)
        wait_until(lambda: _is_over(sent))


def _is_over(sent: Iterator[int]) -> bool:
    before = next(sent)
    time.sleep(0.2)
    return next(sent) == before + 1
