"""Checks, repairs and error translation for the files of a store.

`is_store_sound`: a power cut leaves short files under right names. Git handles them in ways that do
not end: it requests objects from the remote over and over. So all object files are verified once,
when a store is opened; a damaged one makes the store worthless.

`translate_store_errors` turns what libgit2 and the disk raise into our errors. A full disk is
`DiskFull`: cleaning up helps. Everything else (a missing, truncated or changed object, an
unreadable file) is `StoreCorrupt`.

`remove_leftover_locks` and `remove_leftover_files` remove what a killed git leaves. One process
owns a store, so a lock that exists while no git runs is stale. Temporary files of our own are
removed only when a store is opened: later a thread may be writing them.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import zlib
from collections.abc import Iterator
from pathlib import Path

import pygit2

from windlass.base import redaction
from windlass.git.errors import GitError, StoreCorrupt

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextlib.contextmanager
def translate_store_errors() -> Iterator[None]:
    """Translate errors around every use of the files of a store."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL or "No space left" in str(error):
            raise GitError("DiskFull", "the disk of the git store is full") from error
        raise StoreCorrupt(_message(error)) from error
    except (pygit2.GitError, KeyError, ValueError) as error:
        if "No space left" in str(error):
            raise GitError("DiskFull", "the disk of the git store is full") from error
        raise StoreCorrupt(_message(error)) from error


def _message(error: Exception) -> str:
    text = f"the git store cannot be read: {type(error).__name__}: {error}"
    return redaction.process.clean(text, limit=500)


_LOCKS = ("*.lock", "refs/**/*.lock", "objects/**/*.lock", "objects/pack/tmp_*")
_HALF_FILES = ("objects/pack/.*", "objects/tmp_*", "objects/*/tmp_*")


def remove_leftover_locks(directory: Path) -> None:
    """Remove stale locks, after a child was killed."""
    _remove_matching(directory, _LOCKS)


def remove_leftover_files(directory: Path) -> None:
    """Remove stale locks and half-written files, when a store is opened."""
    _remove_matching(directory, _LOCKS + _HALF_FILES)


def _remove_matching(directory: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for path in directory.glob(pattern):
            if path.is_file():
                path.unlink(missing_ok=True)


_CHUNK = 1 << 20
_DIGEST_BYTES = 20


def is_store_sound(directory: Path) -> bool:
    """Whether every loose object and every pack in `directory` matches its checksum."""
    objects = directory / "objects"
    loose = objects.glob("[0-9a-f][0-9a-f]/*")
    packs = (path for path in objects.glob("pack/*") if path.suffix in (".pack", ".idx"))
    return all(map(_is_whole_object, loose)) and all(map(_is_whole_pack, packs))


def _is_whole_object(path: Path) -> bool:
    try:
        content = zlib.decompress(path.read_bytes())
    except zlib.error:
        return False
    name = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    return name == path.parent.name + path.name


def _is_whole_pack(path: Path) -> bool:
    """Whether a pack or index ends in the SHA-1 of everything before."""
    digest = hashlib.sha1(usedforsecurity=False)
    remaining = path.stat().st_size - _DIGEST_BYTES
    with path.open("rb") as file:
        while remaining > 0 and (chunk := file.read(min(_CHUNK, remaining))):
            digest.update(chunk)
            remaining -= len(chunk)
        return file.read() == digest.digest()
