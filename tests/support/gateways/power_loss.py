"""A disk that forgets: what a power cut may leave of a recorded run.

`RecordingTree` really does everything and notes it. `Disk` plays the notes on a model in
which a name lives in its directory and a content in its file, and both are durable only
once synced. After a cut each name that was changed since its directory was synced is what
it was at any of its changes, apart from all other names, even where one rename changed two;
each content that was not synced is anything from nothing to all of it. Real file systems
are kinder than this.
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
    """A tree that notes every change; one run is recorded at a time."""

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
    """A content and what of it is durable."""

    content: bytes
    durable: bytes = b""

    def sync(self) -> None:
        self.durable = self.content


@dataclass
class Folder:
    """Names, what of them is durable, and what each was since."""

    names: dict[str, File | Folder] = field(default_factory=dict)
    durable: dict[str, File | Folder] = field(default_factory=dict)
    since: dict[str, list[File | Folder | None]] = field(default_factory=dict)

    def set(self, name: str, held: File | Folder | None) -> None:
        if held is None:
            self.names.pop(name)
        else:
            self.names[name] = held
        self.since.setdefault(name, []).append(held)

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.since.clear()


class Disk:
    """A model of a data directory; it begins with what really lies there, all durable."""

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
            written = folder.names[name]
            assert isinstance(written, File)
            assert isinstance(other, bytes)
            written.content += other
        elif kind in ("link", "rename"):
            assert isinstance(other, str)
            self._move(folder, name, other, keep=kind == "link")
        else:
            made: dict[str, Callable[[], File | Folder]] = {
                "create": lambda: File(b""),
                "mkdir": Folder,
            }
            folder.set(name, made[kind]() if kind in made else None)

    def cut(self, target: Path, chance: Random | None) -> None:
        """Write what is left after a power cut; without `chance`, only what is durable."""
        self._write(self.root, target, chance, {})

    def _move(self, folder: Folder, name: str, destination: str, *, keep: bool) -> None:
        there, new = self._parent(destination)
        held = folder.names[name]
        if there.names.get(new) is held:
            return
        there.set(new, held)
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
        left = dict(folder.durable)
        for name, changes in folder.since.items():
            reached = chance.randrange(len(changes) + 1) if chance else 0
            held = changes[reached - 1] if reached else folder.durable.get(name)
            left.pop(name, None)
            if held is not None:
                left[name] = held
        for name, held in left.items():
            if isinstance(held, Folder):
                self._write(held, target / name, chance, written)
            elif id(held) in written:
                (target / name).hardlink_to(written[id(held)])
            else:
                (target / name).write_bytes(_remains(held, chance))
                written[id(held)] = target / name

    def _load(self, here: Path, folder: Folder) -> None:
        for entry in os.scandir(here):
            if entry.is_dir(follow_symlinks=False):
                below = Folder()
                self._load(Path(entry.path), below)
                folder.names[entry.name] = below
            else:
                content = Path(entry.path).read_bytes()
                file = self._files.setdefault(entry.inode(), File(content, content))
                folder.names[entry.name] = file
        folder.sync()

    def _sync_below(self, held: File | Folder) -> None:
        held.sync()
        if isinstance(held, Folder):
            for below in held.names.values():
                self._sync_below(below)

    def _at(self, path: str) -> File | Folder:
        held: File | Folder = self.root
        for part in path.split("/") if path else ():
            assert isinstance(held, Folder)
            held = held.names[part]
        return held

    def _parent(self, path: str) -> tuple[Folder, str]:
        above, _, name = path.rpartition("/")
        folder = self._at(above)
        assert isinstance(folder, Folder)
        return folder, name


def _remains(file: File, chance: Random | None) -> bytes:
    if file.durable == file.content or chance is None:
        return file.durable
    return file.content[: chance.randrange(len(file.content) + 1)]
