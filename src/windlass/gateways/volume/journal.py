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

Turning back writes nothing: the document that says so was staged before the commit point, because
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
    """One change to the tree; `was` is what the path held before it."""

    op: StepName
    path: str
    was: PathKind
    staged: int | None = None
    sha256: str = ""
    size: int = 0
    was_size: int = 0


class TransactionRecord(msgspec.Struct, frozen=True):
    """Everything a transaction does; its undo is kept under the numbers of its steps."""

    tx: str
    from_commit: str
    to_commit: str
    steps: tuple[JournalStep, ...]
    has_manifest: bool
    had_manifest: bool
    keeps_undo: bool
    schema: int = state_directory.STATE_SCHEMA


class Journal(msgspec.Struct, frozen=True):
    """The transaction that has passed its commit point, and where it is going."""

    tx: str
    direction: JournalDirection
    schema: int = state_directory.STATE_SCHEMA


def read_journal(tree: DataDirectory) -> Journal | None:
    """The journal, if a transaction is past its commit point."""
    return state_directory.read_document(tree, JOURNAL_PATH, Journal)


def read_record(tree: DataDirectory, path: str) -> TransactionRecord:
    """The record of a transaction; without it nobody knows what was going on."""
    record = state_directory.read_document(tree, path, TransactionRecord)
    if record is None:
        raise state_directory.damaged_document(path, "it is missing")
    return record


def write_documents(staging: Staging, record: TransactionRecord) -> None:
    """Stage what the journal may have to say."""
    staging.write_document(RECORD_NAME, msgspec.json.encode(record))
    for direction in ("forward", "back"):
        paper = Journal(record.tx, "forward" if direction == "forward" else "back")
        staging.write_document(direction, msgspec.json.encode(paper))


def mark_committed(tree: DataDirectory, staging_folder: str) -> None:
    """The commit point: from here on the transaction is finished, whatever happens."""
    _install_journal(tree, staging_folder, "forward")


def mark_reverting(tree: DataDirectory, staging_folder: str) -> None:
    """From here on the transaction is undone, whatever happens."""
    _install_journal(tree, staging_folder, "back")


def remove_journal(tree: DataDirectory) -> None:
    """The transaction is over; its end is durable."""
    failpoint.reach("gateways.journal.drop.before")
    placement.remove_if_present(tree, JOURNAL_PATH)
    tree.sync(STATE_DIRECTORY)
    failpoint.reach("gateways.journal.drop.after")


def withdraw_commit(tree: DataDirectory, tx: str) -> None:
    """Take back a commit point whose durability is not known, before any step was done."""
    found = read_journal(tree)
    if found is not None and found.tx == tx:
        remove_journal(tree)


def _install_journal(tree: DataDirectory, staging_folder: str, direction: JournalDirection) -> None:
    failpoint.reach(f"gateways.journal.{direction}.before")
    placement.install(tree, f"{staging_folder}/{direction}", JOURNAL_PATH, tag=direction)
    tree.sync(STATE_DIRECTORY)
    failpoint.reach(f"gateways.journal.{direction}.after")


@dataclass(frozen=True, slots=True)
class FileOperation:
    """One wanted change; `staged` is the content of a put."""

    op: StepName
    path: str
    staged: StagedContent | None = None


class StepPreparation:
    """The steps of one transaction, in the order of the plan."""

    def __init__(self, tree: DataDirectory) -> None:
        self._directory = tree
        self._kinds_after: dict[str, PathKind] = {}

    def steps(self, changes: Iterable[FileOperation]) -> tuple[JournalStep, ...]:
        return tuple(step for change in changes for step in self._steps(change))

    def _steps(self, change: FileOperation) -> Iterator[JournalStep]:
        if path_rules.is_protected(change.path):
            raise UnsafePath(change.path, "protected and never changed by a sync")
        found, size = self._current_kind(change.path)
        if change.op in ("mkdir", "put"):
            yield from self._missing_directories(change.path)
        if change.op == "put":
            yield self._put(change, found, size)
        elif change.op == "mkdir" and self._is_needed(change, found, "", "directory"):
            yield self._step(change, found, then="directory")
        elif change.op == "delete" and self._is_needed(change, found, "file", ""):
            yield self._step(change, found, then="", was_size=size)
        elif change.op == "rmdir" and found == "directory":
            yield self._step(change, found, then="")

    def _put(self, change: FileOperation, found: PathKind, size: int) -> JournalStep:
        assert change.staged is not None
        if found == "directory":
            raise _tree_changed(change.path, "a directory where a file should go")
        self._kinds_after[change.path] = "file"
        staged = change.staged
        return JournalStep(
            "put", change.path, found, staged.number, staged.sha256, staged.size, was_size=size
        )

    def _step(
        self, change: FileOperation, found: PathKind, *, then: PathKind, was_size: int = 0
    ) -> JournalStep:
        self._kinds_after[change.path] = then
        return JournalStep(change.op, change.path, found, was_size=was_size)

    def _is_needed(
        self, change: FileOperation, found: PathKind, before: PathKind, done: PathKind
    ) -> bool:
        """Whether there is something to do: `before` is there, and not `done` already."""
        if found not in (before, done):
            raise _tree_changed(change.path, f"a {found} that was not there")
        return found == before

    def _missing_directories(self, path: str) -> Iterator[JournalStep]:
        for folder in reversed(list(path_rules.parents(path))):
            found, _ = self._current_kind(folder)
            if found == "file":
                raise _tree_changed(folder, "a file where a directory should be")
            self._kinds_after[folder] = "directory"
            if found == "":
                yield JournalStep("mkdir", folder, "")

    def _current_kind(self, path: str) -> tuple[PathKind, int]:
        if path in self._kinds_after:
            return self._kinds_after[path], 0
        found = self._directory.stat(path)
        if found is None:
            return "", 0
        if stat.S_ISDIR(found.st_mode):
            return "directory", 0
        if not stat.S_ISREG(found.st_mode):
            raise UnsafePath(path, "a symlink or another special file")
        return "file", found.st_size


def check_other_filesystems(
    tree: DataDirectory, staging: str, steps: Iterable[JournalStep], reserve: DiskReserve
) -> None:
    """Raise DiskFull where contents for another file system would not fit there."""
    wanted: dict[str, int] = {}
    for step in steps:
        if step.op == "put":
            above = path_rules.parent(step.path)
            wanted[above] = wanted.get(above, 0) + step.size
    per_device: dict[int, tuple[str, int]] = {}
    for above, size in wanted.items():
        folder = _nearest_directory(tree, above)
        found = tree.stat(folder)
        if found is not None and tree.is_other_filesystem(staging, folder):
            _, before = per_device.get(found.st_dev, ("", 0))
            per_device[found.st_dev] = (folder, before + size)
    for folder, size in per_device.values():
        reserve.check(tree, folder, size)


def _nearest_directory(tree: DataDirectory, path: str) -> str:
    while path:
        found = tree.stat(path)
        if found is not None and stat.S_ISDIR(found.st_mode):
            return path
        path = path_rules.parent(path)
    return ""


def _tree_changed(path: str, what: str) -> Retryable:
    return Retryable("Retrying", f"{path} is {what} when the plan was made; it is planned again")
