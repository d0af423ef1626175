"""The cache of programs: one process at a time adds to it, and its entries are complete.

An entry is made in a temporary directory beside it, synced and renamed. A process that is
killed before the rename leaves only the temporary directory; the next one removes it.
`go_build`, `go_toolchain` and `debian_packages` make the entries.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from windlass_dev import directories, file_lock
from windlass_dev.progress import ProgressReporter

_PREFIX = ".build-"


@contextlib.contextmanager
def lock_cache(lock: Path, activity: str, progress: ProgressReporter) -> Iterator[None]:
    """Hold `lock` in the cache; while another process holds it, report its `activity` once."""
    directories.ensure_private(lock.parent)

    def report_holder(holder: str) -> None:
        progress.report(f"waiting: {holder} is {activity}")

    with file_lock.hold(lock, on_wait=report_holder):
        for stale in lock.parent.glob(f"{_PREFIX}*"):
            shutil.rmtree(stale)
        yield


@contextlib.contextmanager
def temporary_directory(cache: Path) -> Iterator[Path]:
    """A directory for an unfinished entry, on the same disk as `cache`; removed afterwards."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=cache) as temporary:
        yield Path(temporary)


def sync(path: Path) -> None:
    """Write a file, a directory or all files below a directory to the disk."""
    for file in (path, *path.rglob("*")):
        if file == path or (file.is_file() and not file.is_symlink()):
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def run(
    command: Sequence[str | Path],
    *,
    seconds: float,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program without stdin; one that cannot run in time fails with the cause as stderr."""
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        return subprocess.CompletedProcess(command, 1, "", str(fault))
