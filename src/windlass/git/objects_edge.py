"""Turns what libgit2 and the disk raise into our errors.

A full disk is `DiskFull`: cleaning up helps. Everything else a store's files can do
wrong (a missing, cut or changed object, an unreadable file) is `StoreCorrupt`.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

import pygit2

from windlass.base import redaction
from windlass.git.errors import GitError, StoreCorrupt

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Around every use of a store's files."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL or "No space left" in str(error):
            raise GitError("DiskFull", "the disk of the git store is full") from error
        raise StoreCorrupt(_words(error)) from error
    except (pygit2.GitError, KeyError, ValueError) as error:
        if "No space left" in str(error):
            raise GitError("DiskFull", "the disk of the git store is full") from error
        raise StoreCorrupt(_words(error)) from error


def _words(error: Exception) -> str:
    text = f"the git store cannot be read: {type(error).__name__}: {error}"
    return redaction.process.clean(text, limit=500)
