"""The journal of a transaction: its steps, its commit point, and which end it has to be taken to.

Rules:
- Before the commit point nothing outside the state directory changes. Everything that the
  transaction needs lies durably in `staging/<tx>` and `undo/<tx>`; staging is then linked
  to the name `journal` in one step, which is the commit point.
- While there is a journal, staging and undo of its transaction are complete. So it can be
  taken to either end from any state of the tree, also from one that a power cut made.
- The journal goes only after the tree and the manifest of that end are durable. Only
  then is anything removed.

    state    | what happens                              | next    | tree
    ---------|-------------------------------------------|---------|--------------------
    none     | staged, undo kept, `forward` installed    | forward | old
    none     | crash, abandoned, disk full               | none    | old
    forward  | crash, lock lost                          | forward | any; replay resumes
    forward  | all steps done, manifest installed        | none    | new
    forward  | a step cannot be done, `back` installed   | back    | any
    back     | crash, lock lost, a step cannot be done   | back    | any; replay resumes
    back     | all steps reverted                        | none    | old

Turning back writes nothing: the `back` document was staged before the commit point, because
the usual reason to turn back is a full disk.

`StepPreparation` turns planned operations into steps, by what is on the disk at that moment: the
gateway may have written since the plan was made. Each operation is checked as if all before it
were done already. One that is done already is left out, one that can no longer be done as planned
sends the sync back to planning, one that leads over a symlink or into a protected path refuses it.
Preparing changes nothing.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from windlass.base import failpoint
from windlass.base.errors import Retryable
from windlass.gateways.tree import path_rules
from windlass.gateways.tree.path_rules import STATE_DIRECTORY
from windlass.gateways.volume import placement, state_directory
from windlass.gateways.volume.data_directory import DataDirectory, UnsafePath
from windlass.gateways.volume.staging import DiskReserve, StagedContent, Staging
from windlass.gateways.volume.state_directory import JOURNAL_PATH

JournalDirection = Literal["forward", "back"]
PathKind = Literal["", "file", "directory"]
StepName = Literal["mkdir", "put", "delete", "rmdir"]

RECORD_NAME = "record"
MANIFEST_NAME = "manifest"


class JournalStep(msgspec.Struct, frozen=True):
    """One change to the tree; its number in the record also names its undo."""

    op: StepName  # every one can be repeated and reverted
    path: str  # below the data directory
    was: PathKind  # what the path held before; empty for nothing
    staged: int | None = None  # number of the staged content; None unless op is put
    sha256: str = ""  # of the new content; empty if it was linked from an undo
    size: int = 0  # bytes of the new content
    was_size: int = 0  # bytes of the old content


class TransactionRecord(msgspec.Struct, frozen=True):
    """Everything a transaction does: enough to complete, revert or undo it later."""

    tx: str  # id: a number that grows, and a random part
    from_commit: str  # of the old tree; empty before the first sync
    to_commit: str  # of the new tree
    steps: tuple[JournalStep, ...]  # in the order they are done; reverts run backwards
    has_manifest: bool  # the new tree has one; False only after undoing the first sync
    had_manifest: bool  # the old tree had one, kept in the undo
    keeps_undo: bool  # the old contents are kept after success, for a rollback
    schema: int = state_directory.STATE_SCHEMA  # a newer one is refused when it is read


class Journal(msgspec.Struct, frozen=True):
    """The file `journal`: which transaction is past its commit point, and its direction."""

    tx: str
    direction: JournalDirection
    schema: int = state_directory.STATE_SCHEMA


def read_journal(directory: DataDirectory) -> Journal | None:
    """The journal, if a transaction is past its commit point."""
    return state_directory.read_document(directory, JOURNAL_PATH, Journal)


def read_record(directory: DataDirectory, path: str) -> TransactionRecord:
    """The record of a transaction; raises Stalled if it is missing or damaged."""
    record = state_directory.read_document(directory, path, TransactionRecord)
    if record is None:
        raise state_directory.damaged_document(path, "it is missing")
    return record


def write_documents(staging: Staging, record: TransactionRecord) -> None:
    """Stage the record and both journal files, so that turning back needs no disk space."""
    staging.write_document(RECORD_NAME, msgspec.json.encode(record))
    for direction in ("forward", "back"):
        entry = Journal(record.tx, "forward" if direction == "forward" else "back")
        staging.write_document(direction, msgspec.json.encode(entry))


def mark_committed(directory: DataDirectory, staging_folder: str) -> None:
    """The commit point: from here on the transaction is finished, whatever happens."""
    _install_journal(directory, staging_folder, "forward")


def mark_reverting(directory: DataDirectory, staging_folder: str) -> None:
    """From here on the transaction is undone, whatever happens."""
    _install_journal(directory, staging_folder, "back")


def remove_journal(directory: DataDirectory) -> None:
    """End the transaction; called when the tree and manifest of its end are durable."""
    failpoint.reach("gateways.journal.drop.before")
    placement.remove_if_present(directory, JOURNAL_PATH)
    directory.sync(STATE_DIRECTORY)
    failpoint.reach("gateways.journal.drop.after")


def withdraw_commit(directory: DataDirectory, tx: str) -> None:
    """Take back a commit point whose durability is not known, before any step was done."""
    entry = read_journal(directory)
    if entry is not None and entry.tx == tx:
        remove_journal(directory)


def _install_journal(
    directory: DataDirectory, staging_folder: str, direction: JournalDirection
) -> None:
    failpoint.reach(f"gateways.journal.{direction}.before")
    placement.install(directory, f"{staging_folder}/{direction}", JOURNAL_PATH, tag=direction)
    directory.sync(STATE_DIRECTORY)
    failpoint.reach(f"gateways.journal.{direction}.after")


@dataclass(frozen=True, slots=True)
class FileOperation:
    """One planned change; `staged` is the content of a put."""

    op: StepName
    path: str
    staged: StagedContent | None = None


class StepPreparation:
    """Turns the operations of one transaction into steps, in the order of the plan."""

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory
        # What each path will hold after the steps prepared so far; the disk knows the others.
        self._kinds_after: dict[str, PathKind] = {}

    def steps(self, operations: Iterable[FileOperation]) -> tuple[JournalStep, ...]:
        return tuple(step for operation in operations for step in self._steps(operation))

    def _steps(self, operation: FileOperation) -> Iterator[JournalStep]:
        if path_rules.is_protected(operation.path):
            raise UnsafePath(operation.path, "protected and never changed by a sync")
        current, size = self._current_kind(operation.path)
        if operation.op in ("mkdir", "put"):
            yield from self._missing_directories(operation.path)
        if operation.op == "put":
            yield self._put(operation, current, size)
        elif operation.op == "mkdir" and self._is_needed(operation, current, "", "directory"):
            yield self._step(operation, current, then="directory")
        elif operation.op == "delete" and self._is_needed(operation, current, "file", ""):
            yield self._step(operation, current, then="", was_size=size)
        elif operation.op == "rmdir" and current == "directory":
            yield self._step(operation, current, then="")

    def _put(self, operation: FileOperation, current: PathKind, size: int) -> JournalStep:
        assert operation.staged is not None
        if current == "directory":
            raise _tree_changed(operation.path, "now a directory")
        self._kinds_after[operation.path] = "file"
        staged = operation.staged
        return JournalStep(
            "put", operation.path, current, staged.number, staged.sha256, staged.size, was_size=size
        )

    def _step(
        self, operation: FileOperation, current: PathKind, *, then: PathKind, was_size: int = 0
    ) -> JournalStep:
        self._kinds_after[operation.path] = then
        return JournalStep(operation.op, operation.path, current, was_size=was_size)

    def _is_needed(
        self, operation: FileOperation, current: PathKind, expected: PathKind, done: PathKind
    ) -> bool:
        """Whether the path holds what is `expected`; False if the operation is `done` already."""
        if current not in (expected, done):
            raise _tree_changed(operation.path, f"now a {current}")
        return current == expected

    def _missing_directories(self, path: str) -> Iterator[JournalStep]:
        for folder in reversed(list(path_rules.parents(path))):
            current, _ = self._current_kind(folder)
            if current == "file":
                raise _tree_changed(folder, "now a file")
            self._kinds_after[folder] = "directory"
            if current == "":
                yield JournalStep("mkdir", folder, "")

    def _current_kind(self, path: str) -> tuple[PathKind, int]:
        if path in self._kinds_after:
            return self._kinds_after[path], 0
        live = self._directory.stat(path)
        if live is None:
            return "", 0
        if stat.S_ISDIR(live.st_mode):
            return "directory", 0
        if not stat.S_ISREG(live.st_mode):
            raise UnsafePath(path, "a symlink or another special file")
        return "file", live.st_size


def check_other_filesystems(
    directory: DataDirectory, staging: str, steps: Iterable[JournalStep], reserve: DiskReserve
) -> None:
    """Raise DiskFull where contents for another file system would not fit there."""
    bytes_by_folder: dict[str, int] = {}
    for step in steps:
        if step.op == "put":
            parent = path_rules.parent(step.path)
            bytes_by_folder[parent] = bytes_by_folder.get(parent, 0) + step.size
    per_device: dict[int, tuple[str, int]] = {}
    for parent, size in bytes_by_folder.items():
        folder = _nearest_directory(directory, parent)
        info = directory.stat(folder)
        if info is not None and directory.is_other_filesystem(staging, folder):
            _, total = per_device.get(info.st_dev, ("", 0))
            per_device[info.st_dev] = (folder, total + size)
    for folder, size in per_device.values():
        reserve.check(directory, folder, size)


def _nearest_directory(directory: DataDirectory, path: str) -> str:
    while path:
        info = directory.stat(path)
        if info is not None and stat.S_ISDIR(info.st_mode):
            return path
        path = path_rules.parent(path)
    return ""


def _tree_changed(path: str, what: str) -> Retryable:
    return Retryable("Retrying", f"{path} is {what}; planning again")
