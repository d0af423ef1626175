"""File access below one directory that never leaves it.

Every component of a path is opened by its parent's descriptor and must not be a symlink,
so neither `..` nor a link that is created between a check and its use leads out. Paths use `/` and
are relative to the root. `open_directory` is that walk; `SafeDirectory` reads and replaces files
with it, and the data volume of a gateway is built on it as well.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe in place of a file must not make us wait for its writer.
OPEN_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
OPEN_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class SymlinkInPath(NotADirectoryError):
    """A component of a path is a symlink; `filename` names it."""


def open_root(root: Path) -> int:
    """The descriptor of a root; unlike everything below, it may be given by a symlink."""
    return os.open(root, OPEN_DIRECTORY & ~os.O_NOFOLLOW)


def components(path: str) -> list[str]:
    """The components of a relative path; ValueError for one that could lead elsewhere."""
    names = path.split("/")
    if any(name in ("", ".", "..") for name in names):
        raise ValueError(f"{path!r} is not a path below the root")
    return names


def open_directory(root: int, folders: Sequence[str], *, create: bool = False) -> int:
    """The descriptor of a directory below `root`, for the caller to close.

    `folders` are its `components`. Raises SymlinkInPath or another OSError.
    """
    current = os.dup(root)
    try:
        for folder in folders:
            child = _open_child(current, folder, create=create)
            os.close(current)
            current = child
    except BaseException:
        os.close(current)
        raise
    return current


def _open_child(parent: int, folder: str, *, create: bool) -> int:
    if create:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, dir_fd=parent)
    try:
        return os.open(folder, OPEN_DIRECTORY, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        info = os.stat(folder, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(info.st_mode):
            raise SymlinkInPath(errno.ENOTDIR, "a symlink", folder) from error
        raise


class SafeDirectory:
    """One directory as the root of everything done through it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str, *, limit: int) -> bytes | None:
        """The first `limit` + 1 bytes of a plain file; None if there is none, OSError else."""
        try:
            with self._parent(path, create=False) as (parent, name):
                descriptor = os.open(name, OPEN_READ, dir_fd=parent)
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
            descriptor = os.open(temporary, OPEN_NEW, mode, dir_fd=parent)
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
        *folders, name = components(path)
        if create:
            self.root.mkdir(parents=True, exist_ok=True)
        root = open_root(self.root)
        try:
            parent = open_directory(root, folders, create=create)
        finally:
            os.close(root)
        try:
            yield parent, name
        finally:
            os.close(parent)
