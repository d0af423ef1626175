"""Old contents: what a transaction can go back to, and what a person can (DRF-4).

Before the commit point every file that a transaction replaces or deletes gets a second
name in `undo/<tx>`, numbered by step; where the file system has no second names it is
copied. After the commit point nothing is added. When the transaction has succeeded, its
record is placed beside them; a directory without a record is of no use to anybody. The
newest one with a record is the undo of the last apply, and all others go.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.base import failpoint
from windlass.gateways.agent import journal, placement, state_directory
from windlass.gateways.agent.journal import RECORD, Record, Step
from windlass.gateways.agent.preparation import Change
from windlass.gateways.agent.space import Reserve
from windlass.gateways.agent.staging import Staging
from windlass.gateways.agent.state_directory import UNDO
from windlass.gateways.agent.tree import Tree

CAP_BYTES = 1 << 30


class Undo:
    """The old contents of the transaction `tx`."""

    def __init__(self, tree: Tree, tx: str) -> None:
        self._tree = tree
        self.folder = f"{UNDO}/{tx}"

    @property
    def manifest(self) -> str:
        """Where the old manifest lies, if there was one."""
        return f"{self.folder}/{journal.MANIFEST}"

    @property
    def record(self) -> str:
        """Where the record lies once the transaction has succeeded."""
        return f"{self.folder}/{RECORD}"

    def content(self, number: int) -> str:
        """Where the old content of a step lies."""
        return f"{self.folder}/{number}"

    def keep(self, record: Record, reserve: Reserve) -> None:
        """Hold on to everything that the steps will replace or delete, durably."""
        state_directory.make(self._tree, self.folder)
        for number, step in enumerate(record.steps):
            if step.was == "file":
                self._keep(number, step, reserve)
        if record.had_manifest:
            placement.twin(self._tree, state_directory.MANIFEST, self.manifest)
        self._tree.sync(self.folder)
        self._tree.sync(UNDO)

    def drop(self) -> None:
        # The record goes first: half an undo must never look like a whole one.
        placement.discard(self._tree, self.record)
        state_directory.remove_directory(self._tree, self.folder)

    def drop_contents(self) -> None:
        """Drop all but the record, which then only says what happened."""
        for name in self._tree.names(self.folder):
            if name != RECORD:
                placement.discard(self._tree, f"{self.folder}/{name}")

    def _keep(self, number: int, step: Step, reserve: Reserve) -> None:
        failpoint.reach("gateways.undo.keep.before")
        if not placement.link(self._tree, step.path, self.content(number)):
            reserve.check(self._tree, UNDO, step.was_size)
            placement.copy(self._tree, step.path, self.content(number))
        failpoint.reach("gateways.undo.keep.after")


def newest(tree: Tree) -> str | None:
    """The transaction that can be undone."""
    recorded = (tx for tx in kept(tree) if tree.stat(f"{UNDO}/{tx}/{RECORD}") is not None)
    return max(recorded, default=None)


def kept(tree: Tree) -> list[str]:
    """The transactions that have an undo directory, whole or not."""
    return tree.names(UNDO)


def inverse(tree: Tree, record: Record, staging: Staging) -> Iterator[Change]:
    """The changes that lead back; old contents are staged without being written again."""
    undo = Undo(tree, record.tx)
    for number, step in reversed(list(enumerate(record.steps))):
        if step.was == "file":
            staged = staging.adopt(undo.content(number))
            yield Change("put", step.path, staged)
        elif step.op == "put":
            yield Change("delete", step.path)
        elif step.op == "mkdir":
            yield Change("rmdir", step.path)
        elif step.op == "rmdir":
            yield Change("mkdir", step.path)
