"""Installs a held file under its final name, in one step.

`install` never gives the held file away: it makes a second name (a hard link, or a copy where the
file system has no links or the two lie on different ones) and renames that one. So whatever a
crash or a power cut undoes, the held file is still there to be installed again, and a reader of
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


def install(tree: DataDirectory, source: str, destination: str, *, tag: str) -> None:
    """Let `destination` be the file `source`; `tag` marks what a crash may leave beside it."""
    going = f"{source}.go"
    link_or_copy(tree, source, going)
    try:
        tree.rename(going, destination)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        tree.unlink(going)
        _install_across(tree, source, destination, tag)


def link_or_copy(tree: DataDirectory, source: str, other: str) -> None:
    """A second name for the content of `source`, or a copy where there is no such thing."""
    if not try_link(tree, source, other):
        copy(tree, source, other)


def try_link(tree: DataDirectory, source: str, other: str) -> bool:
    """A second name for a file, if the file system allows one; found by trying."""
    try:
        _replace_link(tree, source, other)
    except OSError as error:
        if error.errno not in _NO_LINK_CODES:
            raise
        return False
    return True


def copy(tree: DataDirectory, source: str, other: str) -> None:
    """A durable copy with the same permissions; what lay there is left over from a crash."""
    remove_if_present(tree, other)
    reading = tree.open(source)
    try:
        writing = tree.create(other, stat.S_IMODE(os.fstat(reading).st_mode))
        try:
            while chunk := os.read(reading, _CHUNK):
                tree.write(writing, chunk)
            tree.sync_descriptor(writing)
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def temporary_path(destination: str, tag: str) -> str:
    """Where the copy for a destination on another file system lies until it is renamed."""
    folder, slash, name = destination.rpartition("/")
    ending = f".wl-{tag}"
    room = _MAX_NAME_BYTES - 1 - len(ending.encode())
    short = os.fsencode(name)[:room].decode(errors="ignore")
    return f"{folder}{slash}.{short}{ending}"


def remove_if_present(tree: DataDirectory, path: str) -> None:
    """Remove a file of ours if it is there."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        tree.unlink(path)


def _replace_link(tree: DataDirectory, source: str, other: str) -> None:
    try:
        tree.link(source, other)
    except FileExistsError:
        tree.unlink(other)
        tree.link(source, other)


def _install_across(tree: DataDirectory, source: str, destination: str, tag: str) -> None:
    temporary = temporary_path(destination, tag)
    try:
        copy(tree, source, temporary)
        tree.rename(temporary, destination)
    except OSError:
        with contextlib.suppress(OSError):
            tree.unlink(temporary)
        raise
