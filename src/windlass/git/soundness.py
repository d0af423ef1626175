"""Whether the object files of a store are whole.

A power cut leaves short files under right names. Git trips over them in ways that do not
end: it asks the remote for objects that it will never believe to have. So a store is
looked through once, when it is opened; what is not whole makes it worthless.
"""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

_CHUNK = 1 << 20
_DIGEST = 20


def is_sound(directory: Path) -> bool:
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
    left = path.stat().st_size - _DIGEST
    with path.open("rb") as file:
        while left > 0 and (chunk := file.read(min(_CHUNK, left))):
            digest.update(chunk)
            left -= len(chunk)
        return file.read() == digest.digest()
