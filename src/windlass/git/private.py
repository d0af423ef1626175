"""A directory that exists for one call and that nobody else can read.

Keys must be files, because ssh takes nothing else. They lie in memory-backed storage
where the machine has some, mode 0600 in a directory of mode 0700, and are gone after the
call. The directory's name holds our process id, so what a killed process left behind is
recognised and swept by the next one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Self

_PREFIX = "windlass-git-"
_mine: set[str] = set()


class PrivateDirectory:
    """One such directory, `with` around its use."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self.path = base

    def __enter__(self) -> Self:
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=self._base))
        _mine.add(self.path.name)
        return self

    def __exit__(self, *exc: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        _mine.discard(self.path.name)

    def write(self, name: str, content: bytes) -> Path:
        """A new file of mode 0600."""
        path = self.path / name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        return path

    def make_empty(self, name: str) -> Path:
        """A new directory with nothing in it."""
        path = self.path / name
        path.mkdir(mode=0o700)
        return path


def base_directory(configured: Path | None) -> Path:
    """Where private directories are made."""
    if configured is not None:
        configured.mkdir(mode=0o700, parents=True, exist_ok=True)
        return configured
    for candidate in (os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm"):  # noqa: S108
        if candidate and os.access(candidate, os.W_OK | os.X_OK):
            return Path(candidate)
    return Path(tempfile.gettempdir())


def sweep(base: Path) -> None:
    """Remove what dead processes of ours left."""
    for path in base.glob(f"{_PREFIX}*-*"):
        owner = path.name.removeprefix(_PREFIX).partition("-")[0]
        if path.name not in _mine and owner.isdigit() and not _is_another(int(owner)):
            shutil.rmtree(path, ignore_errors=True)


def _is_another(pid: int) -> bool:
    """Whether the process lives and is not this one."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
