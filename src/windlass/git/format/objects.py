"""Object ids: the hash of an object's kind, length and bytes."""

from __future__ import annotations

import hashlib

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def object_id(kind: str, data: bytes) -> str:
    """The SHA-1 id git gives `data` as an object of `kind` (blob, tree, commit)."""
    digest = hashlib.sha1(f"{kind} {len(data)}\0".encode(), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def blob_id(data: bytes) -> str:
    """The id of a file's content."""
    return object_id("blob", data)
