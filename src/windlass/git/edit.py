"""Changes files in a tree without an index, a work tree or a look at any other file.

Only the directories on the way to a changed file are read and written again, so the
cost follows the change. A directory that becomes empty disappears. An edit that would
put a file where a directory is, or the reverse, raises `PathOccupied` and nothing is
written; deleting what is not there is no fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.git.errors import PathOccupied
from windlass.git.format import objects, paths, tree
from windlass.git.store import Store

Edit = bytes | str | None
"""New content, the id of content already stored, or None to delete."""


@dataclass(frozen=True, slots=True)
class TreeEdit:
    """The tree after the edits, and how many objects had to be written for it."""

    tree: str
    new_objects: int


@dataclass(slots=True)
class _Node:
    """What is to happen at one name: something to the file, something below, or both."""

    path: str
    children: dict[bytes, _Node] = field(default_factory=dict)
    edit: Edit = None
    edited: bool = False

    @property
    def writes(self) -> bool:
        own = self.edited and self.edit is not None
        return own or any(child.writes for child in self.children.values())


def edit_tree(store: Store, base_tree: str | None, edits: Mapping[str, Edit]) -> TreeEdit:
    """The tree that `base_tree` (None = empty) becomes; its new objects are in the store."""
    editing = _Editing(store)
    root = editing.apply(_grown(edits), base_tree)
    if root is None:
        root = objects.EMPTY_TREE
        editing.new[root] = ("tree", b"")
    if editing.new:
        store.write_objects(editing.new)
    return TreeEdit(root, len(editing.new))


def _grown(edits: Mapping[str, Edit]) -> _Node:
    """The edits as a tree of names."""
    root = _Node("")
    for path, edit in edits.items():
        node = root
        for part in paths.split(path):
            name = part.encode("utf-8", "surrogateescape")
            below = f"{node.path}/{part}" if node.path else part
            node = node.children.setdefault(name, _Node(below))
        node.edit, node.edited = edit, True
    return root


@dataclass(slots=True)
class _Editing:
    store: Store
    new: dict[str, tuple[str, bytes]] = field(default_factory=dict)

    def apply(self, node: _Node, base: str | None) -> str | None:
        """The id of the directory after the edits below `node`; None = nothing is left."""
        before = self.store.read_tree(base) if base is not None else {}
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
        return self._keep("tree", tree.encode(after))

    def _entry(self, node: _Node, entry: tree.TreeEntry | None) -> tree.TreeEntry | None:
        """What stands at a name afterwards: deletion first, then what is below, then the file."""
        if node.edited and node.edit is None:
            entry = self._deleted(node, entry)
        if node.children:
            entry = self._descended(node, entry)
        if node.edited and node.edit is not None:
            entry = self._written(node, entry, node.edit)
        return entry

    def _deleted(self, node: _Node, entry: tree.TreeEntry | None) -> tree.TreeEntry | None:
        if entry is None or entry.is_directory:
            return entry
        if not entry.is_file:
            raise PathOccupied(node.path)
        return None

    def _descended(self, node: _Node, entry: tree.TreeEntry | None) -> tree.TreeEntry | None:
        if entry is not None and not entry.is_directory:
            if any(child.writes for child in node.children.values()):
                raise PathOccupied(node.path)
            return entry
        below = self.apply(node, entry.id if entry is not None else None)
        return tree.TreeEntry(tree.DIRECTORY, below) if below is not None else None

    def _written(
        self, node: _Node, entry: tree.TreeEntry | None, edit: bytes | str
    ) -> tree.TreeEntry:
        # A link is replaced by the file; whether it may be is the caller's to decide.
        if entry is not None and entry.is_directory:
            raise PathOccupied(node.path)
        identifier = edit if isinstance(edit, str) else self._keep("blob", edit)
        return tree.TreeEntry(tree.FILE, identifier)

    def _keep(self, kind: str, data: bytes) -> str:
        identifier = objects.object_id(kind, data)
        self.new[identifier] = (kind, data)
        return identifier
