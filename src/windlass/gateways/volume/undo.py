"""The undo directory: old contents to revert a transaction, or to roll back an apply (DRF-4).

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
    """The undo directory of the transaction `tx`."""

    def __init__(self, directory: DataDirectory, tx: str) -> None:
        self._directory = directory
        self.folder = f"{UNDO_DIRECTORY}/{tx}"

    @property
    def manifest_path(self) -> str:
        """The path of the old manifest, if there was one."""
        return f"{self.folder}/{journal.MANIFEST_NAME}"

    @property
    def record_path(self) -> str:
        """The path of the record, which exists once the transaction has succeeded."""
        return f"{self.folder}/{RECORD_NAME}"

    def content_path(self, number: int) -> str:
        """The path of the old content of a step."""
        return f"{self.folder}/{number}"

    def save(self, record: TransactionRecord, reserve: DiskReserve) -> None:
        """Keep everything that the steps will replace or delete, durably."""
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
        # The record goes first: an incomplete undo must never count as complete.
        placement.remove_if_present(self._directory, self.record_path)
        state_directory.remove_directory(self._directory, self.folder)

    def remove_contents(self) -> None:
        """Remove all but the record, which then only documents the transaction."""
        for name in self._directory.names(self.folder):
            if name != RECORD_NAME:
                placement.remove_if_present(self._directory, f"{self.folder}/{name}")

    def _save_file(self, number: int, step: JournalStep, reserve: DiskReserve) -> None:
        failpoint.reach("gateways.undo.keep.before")
        if not placement.try_link(self._directory, step.path, self.content_path(number)):
            reserve.check(self._directory, UNDO_DIRECTORY, step.was_size)
            placement.copy(self._directory, step.path, self.content_path(number))
        failpoint.reach("gateways.undo.keep.after")


def newest_transaction(directory: DataDirectory) -> str | None:
    """The newest transaction with a record; None before the first one."""
    recorded = (
        tx
        for tx in undo_transactions(directory)
        if directory.stat(f"{UNDO_DIRECTORY}/{tx}/{RECORD_NAME}") is not None
    )
    return max(recorded, default=None)


def undo_transactions(directory: DataDirectory) -> list[str]:
    """The transactions that have an undo directory, complete or not."""
    return directory.names(UNDO_DIRECTORY)


def inverse_operations(
    directory: DataDirectory, record: TransactionRecord, staging: Staging
) -> Iterator[FileOperation]:
    """The operations that undo a record; old contents are staged by links."""
    undo = Undo(directory, record.tx)
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
