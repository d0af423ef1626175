"""One directory of a commit: names, modes and ids, to bytes and back.

`encode(parse(data))` is `data` for every tree git itself writes. Order is git's: a
directory sorts as if its name ended in `/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FILE = 0o100644
SYMLINK = 0o120000
GITLINK = 0o160000
DIRECTORY = 0o040000

_ID_BYTES = 20


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """What a name in a directory stands for."""

    mode: int
    id: str

    @property
    def is_directory(self) -> bool:
        return self.mode == DIRECTORY

    @property
    def is_file(self) -> bool:
        return self.mode & 0o170000 == 0o100000


def parse(data: bytes) -> dict[bytes, TreeEntry]:
    """The entries of a tree object; ValueError where the bytes are none."""
    entries: dict[bytes, TreeEntry] = {}
    position = 0
    while position < len(data):
        nul = data.index(b"\0", position)
        mode, space, name = data[position:nul].partition(b" ")
        position = nul + 1 + _ID_BYTES
        if not space or not name or position > len(data):
            raise ValueError("the tree object is cut or malformed")
        entries[name] = TreeEntry(int(mode, 8), data[nul + 1 : position].hex())
    return entries


def encode(entries: Mapping[bytes, TreeEntry]) -> bytes:
    """The tree object of these entries."""
    parts: list[bytes] = []
    for name in sorted(entries, key=lambda name: _sort_key(name, entries[name])):
        entry = entries[name]
        parts.append(b"%o %s\0" % (entry.mode, name))
        parts.append(bytes.fromhex(entry.id))
    return b"".join(parts)


def _sort_key(name: bytes, entry: TreeEntry) -> bytes:
    return name + b"/" if entry.is_directory else name
