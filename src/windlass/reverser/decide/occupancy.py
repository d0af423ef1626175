"""Whether the path an object needs is taken by something foreign (SNP-10).

| what stands there | before our claim | under our claim |
|---|---|---|
| nothing | free | free |
| a file of the same identity | free (adopted) | free (restored) |
| any other file | occupied | free (restored) |
| a symlink or a gitlink | occupied | free (restored) |
| a directory | occupied | occupied |
| a file, symlink or gitlink where a parent directory must be | occupied | occupied |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

Standing = Literal["nothing", "file", "link", "directory", "beneath-file"]

_KIND_BITS = 0o170000
_REGULAR = 0o100000


def standing(path: str, modes: Mapping[str, int], directories: Collection[str]) -> Standing:
    """What the tree has at `path`; `modes` are those of its entries that are no trees."""
    if any(parent in modes for parent in parents(path)):
        return "beneath-file"
    if path in directories:
        return "directory"
    mode = modes.get(path)
    if mode is None:
        return "nothing"
    return "file" if mode & _KIND_BITS == _REGULAR else "link"


def occupied(found: Standing, *, claimed: bool, same_identity: bool) -> bool:
    """SNP-10 by the table above; the answer is the skip reason PathOccupied."""
    if found in ("directory", "beneath-file"):
        return True
    if claimed or found == "nothing":
        return False
    return found == "link" or not same_identity


def directories(paths: Iterable[str]) -> frozenset[str]:
    """Every directory that the tree of `paths` has."""
    found: set[str] = set()
    for path in paths:
        for parent in reversed(parents(path)):
            if parent in found:
                break
            found.add(parent)
    return frozenset(found)


def parents(path: str) -> tuple[str, ...]:
    """The directories above a path, the outermost first."""
    segments = path.split("/")[:-1]
    return tuple("/".join(segments[: end + 1]) for end in range(len(segments)))
