"""File access below one directory that never leaves it.

Every component of a path is opened by its parent's descriptor and must not be a symlink,
so neither `..` nor a link that is created between a check and its use leads out.
Files are replaced in one step. Paths use `/` and are relative to the root.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Opening a pipe would wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class SafeDirectory:
    """One directory as the root of everything done through it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str, *, limit: int) -> bytes | None:
        """The first `limit` + 1 bytes of a plain file; None if there is none, OSError else."""
        try:
            with self._parent(path, create=False) as (parent, name):
                descriptor = os.open(name, _FILE, dir_fd=parent)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a plain file", path)
            return file.read(limit + 1)

    def write(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """Replace the file at `path`, or make it with the directories above it."""
        with self._parent(path, create=True) as (parent, name):
            temporary = f".{secrets.token_hex(8)}.windlass"
            descriptor = os.open(temporary, _NEW, mode, dir_fd=parent)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=parent)
                raise

    def remove(self, path: str) -> None:
        """Remove a file and the directories that are empty without it."""
        with self._parent(path, create=False) as (parent, name):
            os.unlink(name, dir_fd=parent)
        above = path.rpartition("/")[0]
        while above:
            with self._parent(above, create=False) as (parent, name):
                try:
                    os.rmdir(name, dir_fd=parent)
                except OSError:
                    return
            above = above.rpartition("/")[0]

    def files(self, folder: str) -> Iterator[str]:
        """Every plain file below `folder`; links, pipes and the like are not listed."""
        start = self.root / folder if folder else self.root
        for directory, _, names in os.walk(start, followlinks=False):
            for name in names:
                path = Path(directory) / name
                if stat.S_ISREG(path.lstat().st_mode):
                    yield path.relative_to(self.root).as_posix()

    @contextlib.contextmanager
    def _parent(self, path: str, *, create: bool) -> Iterator[tuple[int, str]]:
        *folders, name = path.split("/")
        if any(part in ("", ".", "..") for part in (*folders, name)):
            raise ValueError(f"{path!r} is not a path below {self.root}")
        if create:
            self.root.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as opened:
            current = os.open(self.root, _DIRECTORY & ~os.O_NOFOLLOW)
            opened.callback(os.close, current)
            for folder in folders:
                current = _descend(current, folder, create=create)
                opened.callback(os.close, current)
            yield current, name


def _descend(parent: int, folder: str, *, create: bool) -> int:
    """The descriptor of a directory in `parent`."""
    if create:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, dir_fd=parent)
    return os.open(folder, _DIRECTORY, dir_fd=parent)
