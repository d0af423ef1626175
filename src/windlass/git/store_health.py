"""Checks, repairs and error translation for the files of a store.

`is_store_sound`: a power cut leaves short files under right names. Git handles them in ways that do
not end: it requests objects from the remote over and over. So what a crash can have left is looked
for when a store is opened; a damaged file makes the store worthless. The cost grows with the number
of objects and not with their size, because a large store must not delay the start of a process:

| File | Written | Check |
|---|---|---|
| loose object | not synced before it is renamed | read and compared with its name |
| index of a pack | synced, small | compared with the checksum at its end |
| pack | synced, may be large | its end is the checksum that the index names |

Damage inside of a pack, which no crash leaves, is found by whoever reads the object: reads verify
every object by its id.

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


_DIGEST_BYTES = 20


def is_store_sound(directory: Path) -> bool:
    """Whether no loose object, pack or index in `directory` was cut short by a crash."""
    objects = directory / "objects"
    loose = objects.glob("[0-9a-f][0-9a-f]/*")
    return all(map(_is_whole_object, loose)) and all(
        map(_is_whole_pack, objects.glob("pack/*.idx"))
    )


def _is_whole_object(path: Path) -> bool:
    try:
        content = zlib.decompress(path.read_bytes())
    except zlib.error:
        return False
    name = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    return name == path.parent.name + path.name


def _is_whole_pack(index: Path) -> bool:
    """Whether an index matches its checksum, and the pack beside it ends as the index says."""
    content = index.read_bytes()
    body, checksum = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if hashlib.sha1(body, usedforsecurity=False).digest() != checksum:
        return False
    return _end_of(index.with_suffix(".pack")) == body[-_DIGEST_BYTES:]


def _end_of(pack: Path) -> bytes:
    """The last bytes of a pack: the checksum of everything before."""
    with pack.open("rb") as file:
        file.seek(max(0, pack.stat().st_size - _DIGEST_BYTES))
        return file.read()
