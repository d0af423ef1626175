"""Whether the object files of a store are whole.

A power cut leaves short files under right names. Git trips over them in ways that do not
end: it asks the remote for objects that it will never believe to have. So a store is
looked through once, when it is opened; what is not whole makes it worthless.

Turns what libgit2 and the disk raise into our errors.

A full disk is `DiskFull`: cleaning up helps. Everything else a store's files can do
wrong (a missing, cut or changed object, an unreadable file) is `StoreCorrupt`.

What a killed git leaves in a store, and its removal.

One process owns a store, so a lock that is there when nobody works is nobody's. Half
written files of our own are removed only when a store is opened: later they may be ones
that a thread is just writing.
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


_LOCKS = ("*.lock", "refs/**/*.lock", "objects/**/*.lock", "objects/pack/tmp_*")
_HALF_FILES = ("objects/pack/.*", "objects/tmp_*", "objects/*/tmp_*")


def remove_leftover_locks(directory: Path) -> None:
    """After a child of ours was killed."""
    _remove_matching(directory, _LOCKS)


def remove_leftover_files(directory: Path) -> None:
    """When a store is opened."""
    _remove_matching(directory, _LOCKS + _HALF_FILES)


def _remove_matching(directory: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for path in directory.glob(pattern):
            if path.is_file():
                path.unlink(missing_ok=True)


_CHUNK = 1 << 20
_DIGEST_BYTES = 20


def is_store_sound(directory: Path) -> bool:
    """Whether every loose object and every pack in `directory` has the content it promises."""
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
    """Packs and their indexes end in the digest of everything before."""
    digest = hashlib.sha1(usedforsecurity=False)
    left = path.stat().st_size - _DIGEST_BYTES
    with path.open("rb") as file:
        while left > 0 and (chunk := file.read(min(_CHUNK, left))):
            digest.update(chunk)
            left -= len(chunk)
        return file.read() == digest.digest()
