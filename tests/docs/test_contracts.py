"""Names and formats that others rely on are those of the golden files."""

from __future__ import annotations

import subprocess
import sys

from tests.support.repository import contracts

_ADVICE = """
A contract with users changes only on purpose. If this is on purpose, change the golden files in
tests/fixtures/contracts in the same commit: python -m tests.support.repository.contracts
"""


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of its own: all modules and their sources would stay in this process."""
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=contracts.ROOT, capture_output=True, text=True, timeout=240)


def test_contracts_equal_their_golden_files() -> None:
    """Moving and renaming code changes no name that is used outside of it."""
    done = _run("tests.support.repository.contracts", "--check")
    assert done.returncode == 0, f"{done.stdout}{done.stderr}{_ADVICE}"


def test_every_golden_file_is_compared() -> None:
    """A file that no test compares would protect nothing."""
    assert sorted(file.stem for file in contracts.GOLDEN.iterdir()) == contracts.NAMES


def test_golden_files_are_sorted() -> None:
    """Equal contracts are equal files, so a difference is only what really differs."""
    for file in contracts.GOLDEN.iterdir():
        title, *lines = file.read_text().splitlines()
        assert title.startswith("# "), file
        assert lines == sorted(set(lines)), file


def test_the_generated_manifests_are_as_declared() -> None:
    """CRDs, roles and the webhook below deploy/ are golden files of their own."""
    done = _run("windlass", "dev", "generate", "--check")
    assert done.returncode == 0, done.stderr
