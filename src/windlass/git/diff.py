"""Which files differ between two commits of a store.

Directories with equal ids are not looked into, so the cost follows the change and not
the repository. No blob is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.git.format import objects
from windlass.git.format.tree import TreeEntry
from windlass.git.store import Entry, Store, check_bounds


@dataclass(frozen=True, slots=True)
class Change:
    """A file before and after; None = it was or is not there."""

    before: Entry | None
    after: Entry | None


def changes(store: Store, old_tree: str, new_tree: str) -> dict[str, Change]:
    """Every file that differs, by its path."""
    found: dict[str, Change] = {}
    pending = [(b"", old_tree, new_tree, 0)]
    walked = 0
    while pending:
        prefix, old, new, depth = pending.pop()
        walked += 1
        before, after = store.read_tree(old), store.read_tree(new)
        for name in before.keys() | after.keys():
            left, right = before.get(name), after.get(name)
            if left == right:
                continue
            path = prefix + b"/" + name if prefix else name
            check_bounds(path, depth, len(found) + len(pending) + walked)
            if _is_directory(left) or _is_directory(right):
                pending.append((path, _tree(left), _tree(right), depth + 1))
            _note(found, path, _file(left), _file(right))
    return found


def _note(found: dict[str, Change], path: bytes, before: Entry | None, after: Entry | None) -> None:
    if before is not None or after is not None:
        found[path.decode("utf-8", "surrogateescape")] = Change(before, after)


def _is_directory(entry: TreeEntry | None) -> bool:
    return entry is not None and entry.is_directory


def _tree(entry: TreeEntry | None) -> str:
    return entry.id if entry is not None and entry.is_directory else objects.EMPTY_TREE


def _file(entry: TreeEntry | None) -> Entry | None:
    if entry is None or entry.is_directory:
        return None
    return Entry(entry.mode, entry.id)
