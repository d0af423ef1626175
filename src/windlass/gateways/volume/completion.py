"""Completes a transaction past its commit point: forward to the new tree, or back to the old one.

It goes forward; where a step cannot be done it turns back. Either end leaves the tree and the
manifest of that end, both durable before the journal goes. If it can do neither, or the lock is
lost, the journal stays and the next replay continues.

`StepExecution` carries out the steps, or reverts them (APP-6, APP-7). Every step can be repeated
at any time, and every revert too: a file is compared with the staged one by inode, which shows
with one stat whether it is installed already (renaming one name of a file over another of its
names would silently do nothing). Directories that were touched are synced once at the end, also
those that an earlier run touched. Between two steps `guard` may raise; the journal then resumes
the transaction. `Transaction` runs it right after the commit point, `DataVolume.replay` after a
crash.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from windlass.base import failpoint
from windlass.base.errors import WindlassError
from windlass.gateways.tree import manifest as manifests
from windlass.gateways.tree import path_rules
from windlass.gateways.tree.manifest import FileStat
from windlass.gateways.tree.path_rules import STATE_DIRECTORY
from windlass.gateways.volume import data_directory, journal, placement, staging, state_directory
from windlass.gateways.volume.data_directory import DataDirectory, UnsafePath
from windlass.gateways.volume.journal import Journal, JournalStep, TransactionRecord
from windlass.gateways.volume.staging import FileModes
from windlass.gateways.volume.state_directory import MANIFEST_PATH, STAGING_DIRECTORY
from windlass.gateways.volume.undo import Undo, undo_transactions


class StepExecution:
    """Executes the steps of one record, in either direction; `guard` checks the lock."""

    def __init__(
        self,
        directory: DataDirectory,
        record: TransactionRecord,
        modes: FileModes,
        guard: Callable[[], None],
    ) -> None:
        self._directory = directory
        self._record = record
        self._modes = modes
        self._guard = guard
        self._undo = Undo(directory, record.tx)
        self._staging = f"{state_directory.STAGING_DIRECTORY}/{record.tx}"

    def forward(self) -> None:
        """Make the new tree, durably; OSError or UnsafePath where a step cannot be done."""
        for number, step in enumerate(self._record.steps):
            self._guard()
            failpoint.reach(f"gateways.execute.{step.op}.before")
            self._execute(number, step)
            failpoint.reach(f"gateways.execute.{step.op}.after")
        self._sync_directories()

    def revert_all(self) -> None:
        """Make the old tree, durably."""
        for number, step in reversed(list(enumerate(self._record.steps))):
            self._guard()
            failpoint.reach(f"gateways.revert.{step.op}.before")
            self._revert(number, step)
            failpoint.reach(f"gateways.revert.{step.op}.after")
        self._sync_directories()

    def staged_path(self, step: JournalStep) -> str:
        """The path of the new content of a put."""
        return f"{self._staging}/{step.staged}"

    def _execute(self, number: int, step: JournalStep) -> None:
        if step.op == "put":
            self._put(number, step)
        elif step.op == "delete":
            self._remove_file(step.path)
        elif step.op == "mkdir":
            self._make_directory(step.path)
        else:
            self._remove_directory(step.path)

    def _revert(self, number: int, step: JournalStep) -> None:
        if step.op == "put":
            placement.remove_if_present(
                self._directory, placement.temporary_path(step.path, self._tag(number))
            )
        if step.was == "file":
            self._restore(number, step)
        elif step.op == "put":
            self._remove_file(step.path)
        elif step.op == "mkdir":
            self._remove_directory(step.path)
        elif step.was == "directory":
            self._make_directory(step.path)

    def _put(self, number: int, step: JournalStep) -> None:
        staged = self.staged_path(step)
        if self._directory.stat(staged) is None:
            self._expect_content(step)
        else:
            self._install(staged, step.path, self._tag(number))

    def _restore(self, number: int, step: JournalStep) -> None:
        for folder in reversed(list(path_rules.parents(step.path))):
            self._make_directory(folder)
        self._install(self._undo.content_path(number), step.path, self._tag(number))

    def _install(self, source: str, path: str, tag: str) -> None:
        current, new = self._plain_file_stat(path), self._directory.stat(source)
        if new is None:
            raise state_directory.damaged_document(source, "it is missing")
        if current is None or not os.path.samestat(current, new):
            placement.install(self._directory, source, path, tag=tag)

    def _expect_content(self, step: JournalStep) -> None:
        """Accept a put whose staged content was removed, if its result is in place already."""
        if (
            self._plain_file_stat(step.path) is None
            or file_sha256(self._directory, step.path) != step.sha256
        ):
            raise OSError(errno.ENOENT, "staged content is missing", step.path)

    def _remove_file(self, path: str) -> None:
        current = self._directory.stat(path)
        if current is None or stat.S_ISDIR(current.st_mode):
            # A directory there is a later step that an earlier run has already done.
            return
        self._plain_file_stat(path)
        self._directory.unlink(path)

    def _make_directory(self, path: str) -> None:
        current = self._directory.stat(path)
        if current is None:
            self._directory.mkdir(path, self._modes.directory)
        elif not stat.S_ISDIR(current.st_mode):
            raise UnsafePath(path, "not a directory")

    def _remove_directory(self, path: str) -> None:
        """Remove an empty directory; one that was filled meanwhile stays."""
        try:
            self._directory.rmdir(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY):
                raise

    def _plain_file_stat(self, path: str) -> os.stat_result | None:
        """The plain file at `path`; a symlink there is neither replaced nor removed."""
        current = self._directory.stat(path)
        if current is not None and not stat.S_ISREG(current.st_mode):
            raise UnsafePath(path, "not a regular file")
        return current

    def _sync_directories(self) -> None:
        staging.sync_paths(
            self._directory, (path_rules.parent(step.path) for step in self._record.steps)
        )

    def _tag(self, number: int) -> str:
        return f"{self._record.tx}-{number}"


def file_sha256(directory: DataDirectory, path: str) -> str:
    """The sha256 of a plain file, read in parts."""
    with contextlib.closing(os.fdopen(directory.open(path), "rb")) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """How a transaction ended."""

    record: TransactionRecord
    tree: Literal["new", "old"]
    cause: WindlassError | None = None  # why it is the old tree; None after a crash, too
    touched: tuple[str, ...] = ()  # files that another process wrote before the end


class TransactionCompletion:
    """One transaction from its commit point to its end; without `record` it is read from disk."""

    def __init__(
        self,
        directory: DataDirectory,
        entry: Journal,
        modes: FileModes,
        guard: Callable[[], None],
        record: TransactionRecord | None = None,
    ) -> None:
        self._directory = directory
        self._direction = entry.direction
        self._staging = f"{STAGING_DIRECTORY}/{entry.tx}"
        record_path = f"{self._staging}/{journal.RECORD_NAME}"
        self._record = record if record is not None else journal.read_record(directory, record_path)
        self._undo = Undo(directory, entry.tx)
        self._execution = StepExecution(directory, self._record, modes, guard)

    def run(self) -> TransactionEnd:
        if self._direction == "back":
            return self._revert(None)
        try:
            self._execution.forward()
        except (OSError, UnsafePath) as error:
            return self._turn_back(error)
        return self._finish()

    def _turn_back(self, error: OSError | UnsafePath) -> TransactionEnd:
        cause = _as_windlass_error(error)
        try:
            journal.mark_reverting(self._directory, self._staging)
            return self._revert(cause)
        except (OSError, UnsafePath):
            # The first error is the cause to report; the journal stays for the next replay.
            raise cause from error

    def _finish(self) -> TransactionEnd:
        stats, touched = self._verify()
        self._install_manifest(stats)
        placement.install(
            self._directory,
            f"{self._staging}/{journal.RECORD_NAME}",
            self._undo.record_path,
            tag=journal.RECORD_NAME,
        )
        self._directory.sync(self._undo.folder)
        journal.remove_journal(self._directory)
        self._clean(self._remove_superseded)
        return TransactionEnd(self._record, "new", touched=touched)

    def _revert(self, cause: WindlassError | None) -> TransactionEnd:
        self._execution.revert_all()
        self._restore_manifest()
        placement.remove_if_present(self._directory, self._undo.record_path)
        self._directory.sync(self._undo.folder)
        journal.remove_journal(self._directory)
        self._clean(self._undo.remove)
        return TransactionEnd(self._record, "old", cause)

    def _verify(self) -> tuple[dict[str, FileStat | None], tuple[str, ...]]:
        """Stats that differ from the staged ones, and files that another process replaced.

        A stat of None makes the next drift check read the file.
        """
        stats: dict[str, FileStat | None] = {}
        touched = []
        for step in self._record.steps:
            if step.op != "put":
                continue
            staged = self._directory.stat(self._execution.staged_path(step))
            live = self._directory.stat(step.path)
            if live is None or not self._is_ours(live, staged, step):
                stats[step.path] = None
                touched.append(step.path)
            elif staged is None or state_directory.file_stat(live) != state_directory.file_stat(
                staged
            ):
                stats[step.path] = state_directory.file_stat(live)
        return stats, tuple(touched)

    def _is_ours(
        self, live: os.stat_result, staged: os.stat_result | None, step: JournalStep
    ) -> bool:
        """Compare by inode and size; a file that had to be copied has another inode and is read."""
        if live.st_size != step.size:
            return False
        if staged is not None and os.path.samestat(live, staged):
            return True
        return not step.sha256 or file_sha256(self._directory, step.path) == step.sha256

    def _install_manifest(self, stats: dict[str, FileStat | None]) -> None:
        failpoint.reach("gateways.manifest.before")
        staged = f"{self._staging}/{journal.MANIFEST_NAME}"
        if not self._record.has_manifest:
            placement.remove_if_present(self._directory, MANIFEST_PATH)
            self._directory.sync(STATE_DIRECTORY)
        elif (
            stats
            and (planned := state_directory.read_manifest(self._directory, staged)) is not None
        ):
            corrected = manifests.encode(state_directory.with_stats(planned, stats))
            state_directory.replace_document(self._directory, MANIFEST_PATH, corrected)
        else:
            placement.install(self._directory, staged, MANIFEST_PATH, tag=journal.MANIFEST_NAME)
            self._directory.sync(STATE_DIRECTORY)
        failpoint.reach("gateways.manifest.after")

    def _restore_manifest(self) -> None:
        if self._record.had_manifest:
            placement.install(
                self._directory, self._undo.manifest_path, MANIFEST_PATH, tag=journal.MANIFEST_NAME
            )
        else:
            placement.remove_if_present(self._directory, MANIFEST_PATH)
        self._directory.sync(STATE_DIRECTORY)

    def _remove_superseded(self) -> None:
        remove_older_undo(self._directory, self._record.tx)
        if not self._record.keeps_undo:
            # The record stays and shows that this transaction cannot be undone.
            self._undo.remove_contents()

    def _clean(self, remove_undo: Callable[[], None]) -> None:
        """Remove what is no longer needed; what fails now is left for the next replay."""
        failpoint.reach("gateways.clean.before")
        with contextlib.suppress(OSError):
            remove_undo()
            staging.remove_staging(self._directory, self._record.tx)
        failpoint.reach("gateways.clean.after")


def remove_older_undo(directory: DataDirectory, newest: str | None) -> None:
    """Remove every undo but the newest one."""
    for tx in undo_transactions(directory):
        if tx != newest:
            Undo(directory, tx).remove()


def _as_windlass_error(error: OSError | UnsafePath) -> WindlassError:
    if isinstance(error, OSError):
        return data_directory.map_os_error(error, "writing the gateway's files")
    return error
