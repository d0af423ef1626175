"""Failpoints act only where they were armed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
from windlass.base import failpoint
for _ in range(3):
    failpoint.reach("here.before")
    print("passed", flush=True)
"""


def _run(variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=variables, capture_output=True, text=True, timeout=30
    )


def test_an_unarmed_process_passes() -> None:
    """Without the variable nothing happens."""
    assert _run({}).stdout.count("passed") == 3


def test_kill_ends_the_process_at_the_named_visit() -> None:
    """The second visit is the last instruction of the process."""
    done = _run({"WINDLASS_FAILPOINTS": "here.before=kill@2"})
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.count("passed") == 1


@pytest.mark.parametrize(("action", "text"), [("error", "Errno 5"), ("full", "Errno 28")])
def test_errors_are_those_of_the_operating_system(action: str, text: str) -> None:
    """An armed failpoint raises the OSError of a broken disk."""
    assert text in _run({"WINDLASS_FAILPOINTS": f"here.before={action}"}).stderr


def test_visited_failpoints_are_listed(tmp_path: Path) -> None:
    """A recording run names every failpoint that it passed."""
    log = tmp_path / "places"
    _run({"WINDLASS_FAILPOINT_LOG": str(log)})
    assert log.read_text().split() == ["here.before"] * 3


def test_a_misspelled_action_is_refused() -> None:
    """A typo must not silently test nothing."""
    assert "is not name=kill|error|full" in _run({"WINDLASS_FAILPOINTS": "a=explode"}).stderr
