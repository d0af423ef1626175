"""The undo directory: old contents that a transaction, or a person, can go back to (DRF-4).

Before the commit point every file that a transaction replaces or deletes gets a second name in
`undo/<tx>`, numbered by step; where the file system has no hard links it is copied. After the
commit point nothing is added. When the transaction has succeeded, its record is installed beside
them; a directory without a record is useless. The newest one with a record is the undo of the last
apply, and all others are removed.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.base import failpoint
from windlass.gateways.volume import journal, placement, state_directory
from windlass.gateways.volume.data_directory import DataDirectory
from windlass.gateways.volume.journal import (
    RECORD_NAME,
    FileOperation,
    JournalStep,
    TransactionRecord,
)
from windlass.gateways.volume.staging import DiskReserve, Staging
from windlass.gateways.volume.state_directory import UNDO_DIRECTORY

MAX_UNDO_BYTES = 1 << 30


class Undo:
    """The old contents of the transaction `tx`."""

    def __init__(self, tree: DataDirectory, tx: str) -> None:
        self._directory = tree
        self.folder = f"{UNDO_DIRECTORY}/{tx}"

    @property
    def manifest_path(self) -> str:
        """Where the old manifest lies, if there was one."""
        return f"{self.folder}/{journal.MANIFEST_NAME}"

    @property
    def record_path(self) -> str:
        """Where the record lies once the transaction has succeeded."""
        return f"{self.folder}/{RECORD_NAME}"

    def content_path(self, number: int) -> str:
        """Where the old content of a step lies."""
        return f"{self.folder}/{number}"

    def save(self, record: TransactionRecord, reserve: DiskReserve) -> None:
        """Hold on to everything that the steps will replace or delete, durably."""
        state_directory.make_directory(self._directory, self.folder)
        for number, step in enumerate(record.steps):
            if step.was == "file":
                self._save_file(number, step, reserve)
        if record.had_manifest:
            placement.link_or_copy(
                self._directory, state_directory.MANIFEST_PATH, self.manifest_path
            )
        self._directory.sync(self.folder)
        self._directory.sync(UNDO_DIRECTORY)

    def remove(self) -> None:
        # The record goes first: half an undo must never look like a whole one.
        placement.remove_if_present(self._directory, self.record_path)
        state_directory.remove_directory(self._directory, self.folder)

    def remove_contents(self) -> None:
        """Drop all but the record, which then only says what happened."""
        for name in self._directory.names(self.folder):
            if name != RECORD_NAME:
                placement.remove_if_present(self._directory, f"{self.folder}/{name}")

    def _save_file(self, number: int, step: JournalStep, reserve: DiskReserve) -> None:
        failpoint.reach("gateways.undo.keep.before")
        if not placement.try_link(self._directory, step.path, self.content_path(number)):
            reserve.check(self._directory, UNDO_DIRECTORY, step.was_size)
            placement.copy(self._directory, step.path, self.content_path(number))
        failpoint.reach("gateways.undo.keep.after")


def newest_transaction(tree: DataDirectory) -> str | None:
    """The transaction that can be undone."""
    recorded = (
        tx
        for tx in undo_transactions(tree)
        if tree.stat(f"{UNDO_DIRECTORY}/{tx}/{RECORD_NAME}") is not None
    )
    return max(recorded, default=None)


def undo_transactions(tree: DataDirectory) -> list[str]:
    """The transactions that have an undo directory, whole or not."""
    return tree.names(UNDO_DIRECTORY)


def inverse_operations(
    tree: DataDirectory, record: TransactionRecord, staging: Staging
) -> Iterator[FileOperation]:
    """The changes that lead back; old contents are staged without being written again."""
    undo = Undo(tree, record.tx)
    for number, step in reversed(list(enumerate(record.steps))):
        if step.was == "file":
            staged = staging.add_linked(undo.content_path(number))
            yield FileOperation("put", step.path, staged)
        elif step.op == "put":
            yield FileOperation("delete", step.path)
        elif step.op == "mkdir":
            yield FileOperation("rmdir", step.path)
        elif step.op == "rmdir":
            yield FileOperation("mkdir", step.path)
