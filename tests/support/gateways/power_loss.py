"""A disk that loses unsynced data: what a power cut may leave of a recorded run.

`RecordingTree` makes every change and records it. `Disk` replays the records on a model in
which a directory has names and a file has content, and both are durable only once synced.
After a cut each name that changed since its directory was synced is in the state before or
after any of its changes, independent of all other names, even if one rename changed two;
unsynced content is truncated at a random length. Real file systems lose less than this.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import ClassVar, TypeAlias

from windlass.gateways.volume.data_directory import DataDirectory

Event: TypeAlias = tuple[str, str, str | bytes]


class RecordingTree(DataDirectory):
    """A tree that records every change; one run is recorded at a time."""

    events: ClassVar[list[Event]] = []
    _paths: ClassVar[dict[int, str]] = {}

    def create(self, path: str, mode: int) -> int:
        descriptor = super().create(path, mode)
        self._paths[descriptor] = path
        self.events.append(("create", path, b""))
        return descriptor

    def open_rewritable(self, path: str, mode: int) -> int:
        is_new = self.stat(path) is None
        descriptor = super().open_rewritable(path, mode)
        if is_new:
            self.events.append(("create", path, b""))
        return descriptor

    def write(self, descriptor: int, content: bytes | memoryview) -> None:
        super().write(descriptor, content)
        self.events.append(("write", self._paths[descriptor], bytes(content)))

    def sync_descriptor(self, descriptor: int) -> None:
        super().sync_descriptor(descriptor)
        self.events.append(("sync", self._paths[descriptor], b""))

    def link(self, source: str, destination: str) -> None:
        super().link(source, destination)
        self.events.append(("link", source, destination))

    def rename(self, source: str, destination: str) -> None:
        super().rename(source, destination)
        self.events.append(("rename", source, destination))

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self.events.append(("unlink", path, b""))

    def mkdir(self, path: str, mode: int) -> None:
        super().mkdir(path, mode)
        self.events.append(("mkdir", path, b""))

    def rmdir(self, path: str) -> None:
        super().rmdir(path)
        self.events.append(("unlink", path, b""))

    def sync(self, path: str) -> None:
        super().sync(path)
        self.events.append(("sync", path, b""))

    def sync_filesystem(self, path: str) -> None:
        super().sync_filesystem(path)
        self.events.append(("sync_all", path, b""))


@dataclass
class File:
    """The content of a file, and which part of it is durable."""

    content: bytes
    durable: bytes = b""

    def sync(self) -> None:
        self.durable = self.content


@dataclass
class Folder:
    """Names, which of them are durable, and the changes of each since the last sync."""

    names: dict[str, File | Folder] = field(default_factory=dict)
    durable: dict[str, File | Folder] = field(default_factory=dict)
    since: dict[str, list[File | Folder | None]] = field(default_factory=dict)

    def set(self, name: str, node: File | Folder | None) -> None:
        if node is None:
            self.names.pop(name)
        else:
            self.names[name] = node
        self.since.setdefault(name, []).append(node)

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.since.clear()


class Disk:
    """A model of a data directory; it begins with the real content, all durable."""

    def __init__(self, root: Path) -> None:
        self.root = Folder()
        self._files: dict[int, File] = {}
        self._load(root, self.root)

    def play(self, event: Event) -> None:
        kind, path, other = event
        if kind == "sync_all":
            self._sync_below(self.root)
            return
        if kind == "sync":
            self._at(path).sync()
            return
        folder, name = self._parent(path)
        if kind == "write":
            file = folder.names[name]
            assert isinstance(file, File)
            assert isinstance(other, bytes)
            file.content += other
        elif kind in ("link", "rename"):
            assert isinstance(other, str)
            self._move(folder, name, other, keep=kind == "link")
        else:
            created: dict[str, Callable[[], File | Folder]] = {
                "create": lambda: File(b""),
                "mkdir": Folder,
            }
            folder.set(name, created[kind]() if kind in created else None)

    def cut(self, target: Path, chance: Random | None) -> None:
        """Write what is left after a power cut; without `chance`, only what is durable."""
        self._write(self.root, target, chance, {})

    def _move(self, folder: Folder, name: str, destination: str, *, keep: bool) -> None:
        target_folder, new_name = self._parent(destination)
        node = folder.names[name]
        if target_folder.names.get(new_name) is node:
            return
        target_folder.set(new_name, node)
        if not keep:
            folder.set(name, None)

    def _write(
        self,
        folder: Folder,
        target: Path,
        chance: Random | None,
        written: dict[int, Path],
    ) -> None:
        target.mkdir()
        remaining = dict(folder.durable)
        for name, changes in folder.since.items():
            survived = chance.randrange(len(changes) + 1) if chance else 0
            node = changes[survived - 1] if survived else folder.durable.get(name)
            remaining.pop(name, None)
            if node is not None:
                remaining[name] = node
        for name, node in remaining.items():
            if isinstance(node, Folder):
                self._write(node, target / name, chance, written)
            elif id(node) in written:
                (target / name).hardlink_to(written[id(node)])
            else:
                (target / name).write_bytes(_remains(node, chance))
                written[id(node)] = target / name

    def _load(self, path: Path, folder: Folder) -> None:
        for entry in os.scandir(path):
            if entry.is_dir(follow_symlinks=False):
                child = Folder()
                self._load(Path(entry.path), child)
                folder.names[entry.name] = child
            else:
                content = Path(entry.path).read_bytes()
                file = self._files.setdefault(entry.inode(), File(content, content))
                folder.names[entry.name] = file
        folder.sync()

    def _sync_below(self, node: File | Folder) -> None:
        node.sync()
        if isinstance(node, Folder):
            for child in node.names.values():
                self._sync_below(child)

    def _at(self, path: str) -> File | Folder:
        node: File | Folder = self.root
        for part in path.split("/") if path else ():
            assert isinstance(node, Folder)
            node = node.names[part]
        return node

    def _parent(self, path: str) -> tuple[Folder, str]:
        parent, _, name = path.rpartition("/")
        folder = self._at(parent)
        assert isinstance(folder, Folder)
        return folder, name


def _remains(file: File, chance: Random | None) -> bytes:
    if file.durable == file.content or chance is None:
        return file.durable
    return file.content[: chance.randrange(len(file.content) + 1)]
