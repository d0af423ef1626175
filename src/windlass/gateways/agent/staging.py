"""New contents, written once and hashed on the way, before anything else happens (APP-5).

A transaction's staging directory is flat: contents are numbered in the order they came,
so that no path of a repository is ever created here. They carry their final permissions,
because they are renamed, not copied, to where they belong. Nothing in here is durable
before `settle`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass

from windlass.base import failpoint
from windlass.gateways.agent import durability, manifest_file, placement, state_directory
from windlass.gateways.agent.modes import Modes
from windlass.gateways.agent.space import Reserve
from windlass.gateways.agent.tree import Tree
from windlass.gateways.decide.manifest import Stat

_CHECK_EVERY = 8 << 20


@dataclass(frozen=True, slots=True)
class Staged:
    """A content that waits for its commit point; it keeps `stat` when it is put in place."""

    sha256: str
    size: int
    number: int
    stat: Stat


class Staging:
    """The staged contents of the transaction `tx`."""

    def __init__(self, tree: Tree, tx: str, modes: Modes, reserve: Reserve) -> None:
        self._tree = tree
        self._modes = modes
        self._reserve = reserve
        self._count = 0
        self._papers: list[str] = []
        self.folder = f"{state_directory.STAGING}/{tx}"

    def create(self) -> None:
        state_directory.make(self._tree, self.folder)

    def content(self, number: int) -> str:
        """Where the content with `number` lies."""
        return f"{self.folder}/{number}"

    def paper(self, name: str) -> str:
        """Where a document of the transaction lies."""
        return f"{self.folder}/{name}"

    def add(self, content: bytes | Iterable[bytes]) -> Staged:
        """Write one content, whole or in parts, and hash it."""
        number = self._next()
        failpoint.reach("gateways.stage.before")
        descriptor = self._tree.create(self.content(number), self._modes.file)
        try:
            sha256, size = self._fill(descriptor, content)
            stat = manifest_file.stat_of(os.fstat(descriptor))
        finally:
            os.close(descriptor)
        failpoint.reach("gateways.stage.after")
        return Staged(sha256, size, number, stat)

    def _fill(self, descriptor: int, content: bytes | Iterable[bytes]) -> tuple[str, int]:
        digest, size, checked = hashlib.sha256(), 0, 0
        for part in (content,) if isinstance(content, bytes) else content:
            size += len(part)
            if checked == 0 or size - checked > _CHECK_EVERY:
                self._reserve.check(self._tree, self.folder, len(part))
                checked = size
            digest.update(part)
            self._tree.write(descriptor, part)
        return digest.hexdigest(), size

    def adopt(self, path: str) -> Staged:
        """Take a file we hold elsewhere as a content, unread and without writing it again."""
        number = self._next()
        placement.twin(self._tree, path, self.content(number))
        found = self._tree.stat(self.content(number))
        assert found is not None
        return Staged("", found.st_size, number, manifest_file.stat_of(found))

    def write_paper(self, name: str, content: bytes) -> None:
        state_directory.write_new(self._tree, self.paper(name), content, sync=False)
        self._papers.append(name)

    def settle(self, numbers: Iterable[int]) -> None:
        """Make contents and papers durable, then every name in here and the names above."""
        contents = [self.content(number) for number in numbers]
        durability.settle(self._tree, (*contents, *map(self.paper, self._papers)))
        self._tree.sync(self.folder)
        self._tree.sync(state_directory.STAGING)

    def drop(self) -> None:
        state_directory.remove_directory(self._tree, self.folder)

    def _next(self) -> int:
        self._count += 1
        return self._count - 1


def leftovers(tree: Tree) -> list[str]:
    """The transactions that have a staging directory."""
    return tree.names(state_directory.STAGING)


def drop(tree: Tree, tx: str) -> None:
    """Remove what is staged for a transaction."""
    state_directory.remove_directory(tree, f"{state_directory.STAGING}/{tx}")
