"""Installs a staged or kept file under its final name, in one step.

`install` never gives its source away: it makes a second name (a hard link, or a copy where the
file system has no links or the two lie on different ones) and renames that one. So whatever a
crash or a power cut undoes, the source still exists and can be installed again, and a reader of
the destination sees the old content or the new one, never a part.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from windlass.gateways.volume.data_directory import DataDirectory

_CHUNK = 1 << 20
_NO_LINK_CODES = frozenset(
    (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
)
_MAX_NAME_BYTES = 255


def install(directory: DataDirectory, source: str, destination: str, *, tag: str) -> None:
    """Install `source` as `destination`; `tag` names what a crash may leave beside it."""
    second_name = f"{source}.go"
    link_or_copy(directory, source, second_name)
    try:
        directory.rename(second_name, destination)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        directory.unlink(second_name)
        _install_across(directory, source, destination, tag)


def link_or_copy(directory: DataDirectory, source: str, target: str) -> None:
    """Make `target` a hard link to `source`, or a copy where links are not possible."""
    if not try_link(directory, source, target):
        copy(directory, source, target)


def try_link(directory: DataDirectory, source: str, target: str) -> bool:
    """Make `target` a hard link to `source`; False if the file system does not allow it."""
    try:
        _replace_link(directory, source, target)
    except OSError as error:
        if error.errno not in _NO_LINK_CODES:
            raise
        return False
    return True


def copy(directory: DataDirectory, source: str, target: str) -> None:
    """Make `target` a durable copy with the same permissions, replacing leftovers of a crash."""
    remove_if_present(directory, target)
    source_file = directory.open(source)
    try:
        target_file = directory.create(target, stat.S_IMODE(os.fstat(source_file).st_mode))
        try:
            while chunk := os.read(source_file, _CHUNK):
                directory.write(target_file, chunk)
            directory.sync_descriptor(target_file)
        finally:
            os.close(target_file)
    finally:
        os.close(source_file)


def temporary_path(destination: str, tag: str) -> str:
    """The path of a copy beside a destination on another file system, until it is renamed."""
    folder, slash, name = destination.rpartition("/")
    suffix = f".wl-{tag}"
    max_bytes = _MAX_NAME_BYTES - 1 - len(suffix.encode())
    short = os.fsencode(name)[:max_bytes].decode(errors="ignore")
    return f"{folder}{slash}.{short}{suffix}"


def remove_if_present(directory: DataDirectory, path: str) -> None:
    """Remove a file if it exists."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        directory.unlink(path)


def _replace_link(directory: DataDirectory, source: str, target: str) -> None:
    try:
        directory.link(source, target)
    except FileExistsError:
        directory.unlink(target)
        directory.link(source, target)


def _install_across(directory: DataDirectory, source: str, destination: str, tag: str) -> None:
    temporary = temporary_path(destination, tag)
    try:
        copy(directory, source, temporary)
        directory.rename(temporary, destination)
    except OSError:
        with contextlib.suppress(OSError):
            directory.unlink(temporary)
        raise
