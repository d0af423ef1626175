"""Puts a file we hold under the name that it shall have, in one step.

`place` never gives the held file away: it makes a second name (a hard link, or a copy
where the file system has no links or the two lie on different ones) and renames that one.
So whatever a crash or a power cut undoes, the held file is still there to be placed again,
and a reader of the destination sees the old content or the new one, never a part.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from windlass.gateways.agent.tree import Tree

_CHUNK = 1 << 20
_NO_LINK = frozenset(
    (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
)
_LONGEST_NAME = 255


def place(tree: Tree, source: str, destination: str, *, tag: str) -> None:
    """Let `destination` be the file `source`; `tag` marks what a crash may leave beside it."""
    going = f"{source}.go"
    twin(tree, source, going)
    try:
        tree.rename(going, destination)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        tree.unlink(going)
        _place_across(tree, source, destination, tag)


def twin(tree: Tree, source: str, other: str) -> None:
    """A second name for the content of `source`, or a copy where there is no such thing."""
    if not link(tree, source, other):
        copy(tree, source, other)


def link(tree: Tree, source: str, other: str) -> bool:
    """A second name for a file, if the file system allows one; found by trying."""
    try:
        _link(tree, source, other)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        return False
    return True


def copy(tree: Tree, source: str, other: str) -> None:
    """A durable copy with the same permissions; what lay there is left over from a crash."""
    discard(tree, other)
    reading = tree.open(source)
    try:
        writing = tree.create(other, stat.S_IMODE(os.fstat(reading).st_mode))
        try:
            while chunk := os.read(reading, _CHUNK):
                tree.write(writing, chunk)
            tree.sync_open(writing)
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def beside(destination: str, tag: str) -> str:
    """Where the copy for a destination on another file system lies until it is renamed."""
    folder, slash, name = destination.rpartition("/")
    ending = f".wl-{tag}"
    room = _LONGEST_NAME - 1 - len(ending.encode())
    short = os.fsencode(name)[:room].decode(errors="ignore")
    return f"{folder}{slash}.{short}{ending}"


def discard(tree: Tree, path: str) -> None:
    """Remove a file of ours if it is there."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        tree.unlink(path)


def _link(tree: Tree, source: str, other: str) -> None:
    try:
        tree.link(source, other)
    except FileExistsError:
        tree.unlink(other)
        tree.link(source, other)


def _place_across(tree: Tree, source: str, destination: str, tag: str) -> None:
    temporary = beside(destination, tag)
    try:
        copy(tree, source, temporary)
        tree.rename(temporary, destination)
    except OSError:
        with contextlib.suppress(OSError):
            tree.unlink(temporary)
        raise
