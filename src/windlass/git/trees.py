"""Edits and compares trees without an index or a work tree.

`TreeEditor` and `edit_tree`: only the directories on the way to a changed file are read and
written, so the cost follows the change. A directory that becomes empty disappears. An edit that
would put a file where a directory is, or the reverse, raises `PathOccupied` and nothing is written;
deleting what does not exist is no error.

`changed_files` lists the files that differ between two trees of a store. Directories with equal
ids are skipped, so the cost follows the change and not the repository. No blob is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.git.errors import PathOccupied
from windlass.git.format import objects
from windlass.git.format.objects import TreeEntry
from windlass.git.store import Entry, Store, check_bounds


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file before and after; None: it did or does not exist."""

    before: Entry | None
    after: Entry | None


def changed_files(store: Store, old_tree: str, new_tree: str) -> dict[str, FileChange]:
    """Every file that differs between two trees, by its path."""
    changes: dict[str, FileChange] = {}
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
            check_bounds(path, depth, len(changes) + len(pending) + walked)
            if _is_directory(left) or _is_directory(right):
                pending.append((path, _tree(left), _tree(right), depth + 1))
            _add_change(changes, path, _file(left), _file(right))
    return changes


def _add_change(
    changes: dict[str, FileChange], path: bytes, before: Entry | None, after: Entry | None
) -> None:
    if before is not None or after is not None:
        changes[path.decode("utf-8", "surrogateescape")] = FileChange(before, after)


def _is_directory(entry: TreeEntry | None) -> bool:
    return entry is not None and entry.is_directory


def _tree(entry: TreeEntry | None) -> str:
    return entry.id if entry is not None and entry.is_directory else objects.EMPTY_TREE


def _file(entry: TreeEntry | None) -> Entry | None:
    if entry is None or entry.is_directory:
        return None
    return Entry(entry.mode, entry.id)


_WRITE_FROM_BYTES = 4 << 20  # pending bytes after which an editor writes its objects


@dataclass(frozen=True, slots=True)
class Directory:
    """An edit that sets a whole directory by the id of its tree; the empty tree removes it."""

    id: str


Edit = bytes | str | Directory | None
"""New content, the id of content already stored, a whole directory, or None to delete."""


@dataclass(frozen=True, slots=True)
class TreeEdit:
    """The tree after the edits, and the number of objects written for it."""

    tree: str
    new_objects: int


@dataclass(slots=True)
class _Node:
    """The edits at one name: of the file itself, of names below it, or both."""

    path: str
    children: dict[bytes, _Node] = field(default_factory=dict)
    edit: Edit = None
    edited: bool = False

    @property
    def writes(self) -> bool:
        own = self.edited and self.edit is not None
        return own or any(child.writes for child in self.children.values())


def edit_tree(store: Store, base_tree: str | None, edits: Mapping[str, Edit]) -> TreeEdit:
    """Apply `edits` to `base_tree` (None: empty); the new objects are in the store."""
    editor = TreeEditor(store)
    root = editor.edit(base_tree, edits)
    return TreeEdit(root, editor.write())


def _edit_nodes(edits: Mapping[str, Edit]) -> _Node:
    """The edits as a tree of nodes, one per name."""
    root = _Node("")
    for path, edit in edits.items():
        node = root
        for part in objects.split_path(path):
            name = part.encode("utf-8", "surrogateescape")
            below = f"{node.path}/{part}" if node.path else part
            node = node.children.setdefault(name, _Node(below))
        node.edit, node.edited = edit, True
    return root


class TreeEditor:
    """Applies edits one after the other, each to the tree of the last one or to any other.

    New objects are collected until `write`, so that a hundred trees are one pack and not hundreds
    of files; above a few MiB they are written earlier, which bounds the memory.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # Objects that are not in the store yet, by id: kind and content.
        self._new: dict[str, tuple[str, bytes]] = {}
        # Bytes of the content in `_new`.
        self._bytes = 0
        # How many objects were written so far.
        self._written = 0
        # The last tree of each path, id and entries: most often the next edit starts there.
        self._last: dict[str, tuple[str, dict[bytes, objects.TreeEntry]]] = {}

    def edit(self, base_tree: str | None, edits: Mapping[str, Edit]) -> str:
        """Apply `edits` to `base_tree` (None: empty); returns the tree, stored by `write`."""
        root = self._apply(_edit_nodes(edits), base_tree)
        if root is None:
            root = self.keep("tree", b"")
        if self._bytes > _WRITE_FROM_BYTES:
            self.write()
        return root

    def keep(self, kind: str, data: bytes) -> str:
        """Add an object to those that `write` stores; returns its id."""
        identifier = objects.object_id(kind, data)
        if identifier not in self._new:
            self._new[identifier] = (kind, data)
            self._bytes += len(data)
        return identifier

    def write(self) -> int:
        """Store the new objects; returns how many were written in all."""
        if self._new:
            self._store.write_objects(self._new)
        self._written += len(self._new)
        self._new, self._bytes = {}, 0
        return self._written

    def _read(self, path: str, identifier: str) -> dict[bytes, objects.TreeEntry]:
        last = self._last.get(path)
        if last is not None and last[0] == identifier:
            return last[1]
        if identifier in self._new:
            return objects.parse_tree(self._new[identifier][1])
        return self._store.read_tree(identifier)

    def _apply(self, node: _Node, base: str | None) -> str | None:
        """The id of the directory after the edits below `node`; None: it is empty."""
        before = self._read(node.path, base) if base is not None else {}
        after = dict(before)
        for name, child in node.children.items():
            entry = self._entry(child, before.get(name))
            if entry is None:
                after.pop(name, None)
            else:
                after[name] = entry
        if not after:
            return None
        if after == before and base is not None:
            return base
        tree_id = self.keep("tree", objects.encode_tree(after))
        self._last[node.path] = (tree_id, after)
        return tree_id

    def _entry(self, node: _Node, entry: objects.TreeEntry | None) -> objects.TreeEntry | None:
        """The entry of a name after its edits: deletion first, then names below, then the file."""
        if node.edited and node.edit is None:
            entry = self._delete_file(node, entry)
        if node.children:
            entry = self._edit_below(node, entry)
        if node.edited and node.edit is not None:
            entry = self._set_entry(node, entry, node.edit)
        return entry

    def _delete_file(
        self, node: _Node, entry: objects.TreeEntry | None
    ) -> objects.TreeEntry | None:
        if entry is None or entry.is_directory:
            return entry
        if not entry.is_file:
            raise PathOccupied(node.path)
        return None

    def _edit_below(self, node: _Node, entry: objects.TreeEntry | None) -> objects.TreeEntry | None:
        if entry is not None and not entry.is_directory:
            if any(child.writes for child in node.children.values()):
                raise PathOccupied(node.path)
            return entry
        below = self._apply(node, entry.id if entry is not None else None)
        return objects.TreeEntry(objects.DIRECTORY, below) if below is not None else None

    def _set_entry(
        self, node: _Node, entry: objects.TreeEntry | None, edit: bytes | str | Directory
    ) -> objects.TreeEntry | None:
        if isinstance(edit, Directory):
            if entry is not None and not entry.is_directory:
                raise PathOccupied(node.path)
            empty = edit.id == objects.EMPTY_TREE
            return None if empty else objects.TreeEntry(objects.DIRECTORY, edit.id)
        # A symlink is replaced by the file; the caller decides whether it may be.
        if entry is not None and entry.is_directory:
            raise PathOccupied(node.path)
        identifier = edit if isinstance(edit, str) else self.keep("blob", edit)
        return objects.TreeEntry(objects.FILE, identifier)
