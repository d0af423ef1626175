"""The data directory of a gateway, accessed by directory descriptors, and its OSErrors mapped.

Everything the agent reads or changes below a gateway's data directory goes through here. Every
component of a path is opened by its parent's descriptor and must not be a symlink, so a link that
appears between a check and a change leads nowhere: the change is refused with `UnsafePath`. Paths
use `/`, are relative to the root, and never hold `..`. Nothing is decided here; every change
passes a failpoint before and after itself.

`map_os_errors` turns OSErrors of the volume into errors that carry the decision. A full, read-only
or failing volume is retried: nothing that was begun is lost, because the journal resumes it. A
tree that changed meanwhile is planned again. Texts name the path and the fix.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from windlass.base import failpoint, safe_directory
from windlass.base.errors import Retryable
from windlass.base.redaction import process
from windlass.base.safe_directory import OPEN_DIRECTORY, OPEN_NEW, OPEN_READ, SymlinkInPath
from windlass.gateways.tree.path_rules import SyncRefused

_FULL_CODES = frozenset((errno.ENOSPC, errno.EDQUOT))
_PERMISSION_CODES = frozenset((errno.EACCES, errno.EPERM))
_CONFLICT_CODES = frozenset(
    (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.EBUSY)
)


@contextlib.contextmanager
def map_os_errors(action: str) -> Iterator[None]:
    """Turn an OSError of the block into a Retryable error; `action` completes "while …"."""
    try:
        yield
    except OSError as error:
        raise map_os_error(error, action) from error


def map_os_error(error: OSError, action: str) -> Retryable:
    """The Retryable error for an OSError during `action`, with reason and remedy."""
    reason, hint = _reason_and_hint(error.errno)
    cause = os.strerror(error.errno) if error.errno is not None else str(error)
    location = f" ({error.filename})" if isinstance(error.filename, str) else ""
    text = f"while {action}{location}: {cause}; {hint}"
    return Retryable(reason, process.clean(text, limit=512))


def _reason_and_hint(code: int | None) -> tuple[str, str]:
    if code in _FULL_CODES:
        return "DiskFull", "free up space on the data volume; the sync then resumes"
    if code == errno.EROFS:
        return "VolumeReadOnly", "mount the data volume read-write"
    if code in _PERMISSION_CODES:
        return "VolumeReadOnly", "run the agent as the gateway's user"
    if code in _CONFLICT_CODES:
        return "Retrying", "files changed during the sync; planning again"
    return "Internal", "check the data volume; retrying"


_OPEN_REWRITABLE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafePath(SyncRefused):
    """A component of a path is a symlink or another kind of file that must not be touched."""

    def __init__(self, path: str, what: str) -> None:
        message = f"{path} on the data volume is {what}; remove it or exclude the path"
        super().__init__("UnsafePath", path, message)


class DataDirectory:
    """A directory as the root of all paths; nothing outside of it can be reached."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._root = safe_directory.open_root(root)

    def close(self) -> None:
        os.close(self._root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reads

    def stat(self, path: str) -> os.stat_result | None:
        """The lstat of `path`: of a link itself, not of its target; None if nothing exists."""
        if not path:
            return os.fstat(self._root)
        try:
            with self.parent(path) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, folder: str) -> list[str]:
        """The names in a directory, sorted; empty if it does not exist."""
        try:
            with self.directory(folder) as descriptor, os.scandir(descriptor) as listed:
                return sorted(entry.name for entry in listed)
        except FileNotFoundError:
            return []

    def entries(self, folder: str) -> Iterator[tuple[str, os.stat_result]]:
        """The names in a directory with their lstat; those that vanish meanwhile are skipped."""
        with self.directory(folder) as descriptor, os.scandir(descriptor) as listed:
            for entry in listed:
                try:
                    yield entry.name, entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue

    def open(self, path: str) -> int:
        """A descriptor to read the plain file at `path`."""
        descriptor = self._open(path)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise UnsafePath(path, "not a regular file")
        return descriptor

    def read(self, path: str) -> bytes | None:
        """The content of a plain file; None if there is none."""
        try:
            descriptor = self.open(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read()

    def space(self, folder: str) -> os.statvfs_result:
        """The statvfs of the file system of `folder`."""
        with self.directory(folder) as descriptor:
            return os.fstatvfs(descriptor)

    def is_other_filesystem(self, source_folder: str, folder: str) -> bool:
        """Whether a rename between two directories is refused, found by trying one.

        The kernel compares mounts before it resolves the name, so renaming a name that does
        not exist changes nothing and distinguishes bind mounts, which share a device.
        """
        absent = f".{secrets.token_hex(8)}.absent"
        with self.directory(source_folder) as source, self.directory(folder) as other:
            try:
                os.rename(absent, absent, src_dir_fd=source, dst_dir_fd=other)
            except OSError as error:
                return error.errno == errno.EXDEV
        return False

    # Changes

    def create(self, path: str, mode: int) -> int:
        """A descriptor to write the new file `path`; its mode is exact, whatever the umask."""
        with self.parent(path) as (folder, name), _failpoints_around("create"):
            descriptor = os.open(name, OPEN_NEW, mode, dir_fd=folder)
            os.fchmod(descriptor, mode)
            return descriptor

    def open_rewritable(self, path: str, mode: int) -> int:
        """A descriptor to a file that is created once and then only rewritten in place."""
        with self.parent(path) as (folder, name), _failpoints_around("keep"):
            return os.open(name, _OPEN_REWRITABLE, mode, dir_fd=folder)

    def write(self, descriptor: int, content: bytes | memoryview) -> None:
        """Write all of `content` at the descriptor's position."""
        left = memoryview(content)
        with _failpoints_around("write"):
            while left:
                left = left[os.write(descriptor, left) :]

    def sync_descriptor(self, descriptor: int) -> None:
        """Make an open file's content durable, so that it survives a power cut."""
        with _failpoints_around("sync"):
            os.fsync(descriptor)

    def link(self, source: str, destination: str) -> None:
        """Create a hard link; raises FileExistsError if the name is taken."""
        with (
            self._both_parents(source, destination) as (
                source_folder,
                name,
                target_folder,
                new_name,
            ),
            _failpoints_around("link"),
        ):
            os.link(
                name,
                new_name,
                src_dir_fd=source_folder,
                dst_dir_fd=target_folder,
                follow_symlinks=False,
            )

    def rename(self, source: str, destination: str) -> None:
        """Rename a file, replacing the destination in the same step."""
        with (
            self._both_parents(source, destination) as (
                source_folder,
                name,
                target_folder,
                new_name,
            ),
            _failpoints_around("rename"),
        ):
            os.rename(name, new_name, src_dir_fd=source_folder, dst_dir_fd=target_folder)

    def unlink(self, path: str) -> None:
        with self.parent(path) as (folder, name), _failpoints_around("unlink"):
            os.unlink(name, dir_fd=folder)

    def mkdir(self, path: str, mode: int) -> None:
        """Create a directory; an inherited set-group-id bit stays (fsGroup volumes)."""
        with self.parent(path) as (folder, name), _failpoints_around("mkdir"):
            os.mkdir(name, mode, dir_fd=folder)
            created = os.open(name, OPEN_DIRECTORY, dir_fd=folder)
            try:
                os.fchmod(created, mode | (os.fstat(created).st_mode & stat.S_ISGID))
            finally:
                os.close(created)

    def rmdir(self, path: str) -> None:
        with self.parent(path) as (folder, name), _failpoints_around("rmdir"):
            os.rmdir(name, dir_fd=folder)

    def sync(self, path: str) -> None:
        """Make a directory's names, or a file's content, durable."""
        with self._open_any(path) as descriptor, _failpoints_around("sync"):
            os.fsync(descriptor)

    def sync_filesystem(self, path: str) -> None:
        """Make everything on the file system of `path` durable."""
        with self._open_any(path) as descriptor, _failpoints_around("sync_all"):
            _syncfs(descriptor)

    # Path resolution

    @contextlib.contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The descriptor of the directory that holds `path`, and the last component."""
        *folders, name = safe_directory.components(path)
        with self._open_folders(folders) as descriptor:
            yield descriptor, name

    def directory(self, path: str) -> contextlib.AbstractContextManager[int]:
        """The descriptor of a directory; FileNotFoundError, NotADirectoryError, UnsafePath."""
        return self._open_folders(safe_directory.components(path) if path else [])

    @contextlib.contextmanager
    def _open_folders(self, folders: Sequence[str]) -> Iterator[int]:
        try:
            descriptor = safe_directory.open_directory(self._root, folders)
        except SymlinkInPath as error:
            where = f"behind a symlink ({error.filename})"
            raise UnsafePath("/".join(folders), where) from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _both_parents(self, source: str, destination: str) -> Iterator[tuple[int, str, int, str]]:
        with (
            self.parent(source) as (source_folder, name),
            self.parent(destination) as (target_folder, new_name),
        ):
            yield source_folder, name, target_folder, new_name

    @contextlib.contextmanager
    def _open_any(self, path: str) -> Iterator[int]:
        if not path:
            yield self._root
            return
        descriptor = self._open(path)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open(self, path: str) -> int:
        with self.parent(path) as (folder, name):
            try:
                return os.open(name, OPEN_READ, dir_fd=folder)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO):
                    raise UnsafePath(path, "a symlink or another special file") from error
                raise


@contextlib.contextmanager
def _failpoints_around(name: str) -> Iterator[None]:
    failpoint.reach(f"gateways.tree.{name}.before")
    yield
    failpoint.reach(f"gateways.tree.{name}.after")


def _syncfs(descriptor: int) -> None:
    # Python has no syncfs, and a libc other than glibc may lack it.
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):
        os.sync()
        return
    if libc.syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
