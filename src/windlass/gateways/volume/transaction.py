"""A transaction on a data volume: contents are staged, then a plan is committed as a whole.

    transaction = volume.begin()
    transaction.stage(path, content)          any number of times
    transaction.commit(plan, manifest)        or abandon(), or leaving the block

Nothing is written before the first content or a commit with something to do. Until the commit
point the old tree is untouched and `interrupt`, from any thread, ends the transaction; after it
the transaction is taken to its end, and `interrupt` does nothing. Only `DataVolume.begin` creates
transactions.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from windlass.base.errors import Retryable
from windlass.gateways.tree import manifest as manifests
from windlass.gateways.tree import plan as plans
from windlass.gateways.tree.manifest import Manifest
from windlass.gateways.tree.plan import Plan
from windlass.gateways.tree.plan_steps import PlanStep
from windlass.gateways.volume import data_directory, journal, staging, state_directory, undo
from windlass.gateways.volume.completion import TransactionCompletion, TransactionEnd
from windlass.gateways.volume.data_directory import DataDirectory
from windlass.gateways.volume.journal import (
    FileOperation,
    Journal,
    JournalStep,
    StepPreparation,
    TransactionRecord,
)
from windlass.gateways.volume.lock import VolumeLock
from windlass.gateways.volume.staging import DiskReserve, FileModes, StagedContent, Staging
from windlass.gateways.volume.state_directory import MANIFEST_PATH, ManifestFile
from windlass.gateways.volume.undo import Undo

_STAGING_ACTION = "staging the new files"
_NO_UNDO_WARNING = (
    "UndoUnavailable: the replaced files exceed the undo limit; rollback is not possible"
)


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What a commit changed on the volume."""

    tx: str  # id of the transaction; empty if no file had to change
    from_commit: str  # commit of the old tree; empty before the first sync
    to_commit: str  # commit of the new tree
    put: int = 0  # files written
    deleted: int = 0  # files deleted
    bytes_written: int = 0  # in all files written
    touched: tuple[str, ...] = ()  # written by another process before the transaction was over
    warnings: tuple[str, ...] = ()  # for the report, starting with a reason


@dataclass(frozen=True, slots=True)
class VolumeContext:
    """The parts of a data volume that a transaction works with."""

    directory: DataDirectory  # all reads and changes go through it
    lock: VolumeLock  # held, with a heartbeat, while a transaction writes
    modes: FileModes  # permissions of new files and directories
    reserve: DiskReserve  # what must stay free
    undo_cap: int  # bytes up to which replaced files are kept for a rollback
    manifest: ManifestFile  # the installed manifest, cached


class Transaction:
    """One transaction, from the first staged content to its end; used by one thread."""

    def __init__(self, volume: VolumeContext) -> None:
        self._volume = volume
        self._directory = volume.directory
        # Destination path -> content that a plan may put there.
        self._staged: dict[str, StagedContent] = {}
        # None until the first write; from then on the lock is held.
        self._staging: Staging | None = None
        # Id of the transaction; empty until the first write.
        self._tx = ""
        # Releases the lock and ends its heartbeat when the transaction is over.
        self._lock_stack = contextlib.ExitStack()
        # Set by any thread; checked before the commit point only.
        self._interrupted = threading.Event()
        # Committed or abandoned: nothing more can be done with it.
        self._is_over = False
        # Past the commit point; the agent reads it to see whether `interrupt` came too late.
        self.is_committed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()

    def stage(self, path: str, content: bytes | Iterable[bytes]) -> StagedContent:
        """Write and hash the content that `path` is going to have."""
        with data_directory.map_os_errors(_STAGING_ACTION):
            self._check()
            self._staged[path] = self.open_staging().add(content)
        return self._staged[path]

    def interrupt(self) -> None:
        """End the transaction unless its commit point is passed; callable from any thread."""
        self._interrupted.set()

    def abandon(self) -> None:
        """Drop what was staged; nothing to do after a commit."""
        if self._is_over:
            return
        self._is_over = True
        with self._lock_stack, contextlib.suppress(OSError):
            if self._staging is not None and not self.is_committed:
                # Staging must outlive a journal that may still be on the disk.
                journal.withdraw_commit(self._directory, self._tx)
                Undo(self._directory, self._tx).remove()
                self._staging.remove()

    def commit(self, plan: Plan, manifest: Manifest) -> ApplyResult:
        """Carry out `plan` and install `manifest`.

        Stats of written files in `manifest` are taken from what was written.
        """
        plans.check_guards(plan)
        operations = [self._operation(step) for step in plan.ops]
        written = {
            operation.path: operation.staged.stat for operation in operations if operation.staged
        }
        remembered = state_directory.with_stats(manifest, written)
        return self.apply(operations, remembered, plan.from_commit, plan.to_commit)

    def revert(self, record: TransactionRecord) -> ApplyResult:
        """Undo a transaction that succeeded, with the contents that it kept."""
        with data_directory.map_os_errors(_STAGING_ACTION):
            undone = Undo(self._directory, record.tx)
            old_manifest = (
                state_directory.read_manifest(self._directory, undone.manifest_path)
                if record.had_manifest
                else None
            )
            operations = list(undo.inverse_operations(self._directory, record, self.open_staging()))
        return self.apply(operations, old_manifest, record.to_commit, record.from_commit)

    def apply(
        self,
        operations: Sequence[FileOperation],
        manifest: Manifest | None,
        from_commit: str,
        to_commit: str,
    ) -> ApplyResult:
        """Carry out all of `operations` or none, and install `manifest` (None removes it)."""
        try:
            with data_directory.map_os_errors(_STAGING_ACTION):
                self._check()
                steps = StepPreparation(self._directory).steps(operations)
                if not steps:
                    self._replace_manifest(manifest)
                    return ApplyResult("", from_commit, to_commit)
                record = self._commit(steps, manifest, from_commit, to_commit)
            with data_directory.map_os_errors("finishing the sync"):
                return _apply_result(self._complete(record))
        finally:
            self.abandon()

    def open_staging(self) -> Staging:
        """The staging directory; the first call takes the lock and writes for the first time."""
        if self._staging is None:
            self._lock_stack.enter_context(self._volume.lock.transaction())
            self._tx = _new_transaction_id(self._directory)
            staging = Staging(self._directory, self._tx, self._volume.modes, self._volume.reserve)
            staging.create()
            self._staging = staging
        return self._staging

    def _check(self) -> None:
        if self._is_over:
            raise ValueError("the transaction is over; begin another one")
        if self._interrupted.is_set():
            raise Retryable("Retrying", "interrupted before the commit point by a newer request")
        if self._staging is not None:
            self._volume.lock.check()

    def _operation(self, step: PlanStep) -> FileOperation:
        if step.op != "put":
            return FileOperation(step.op, step.path)
        staged = self._staged.get(step.path)
        if staged is None or (staged.sha256, staged.size) != (step.sha256, step.size):
            raise ValueError(f"the content that the plan wants for {step.path} was not staged")
        return FileOperation("put", step.path, staged)

    def _commit(
        self,
        steps: tuple[JournalStep, ...],
        manifest: Manifest | None,
        from_commit: str,
        to_commit: str,
    ) -> TransactionRecord:
        """Everything up to and including the commit point (APP-5, in this order)."""
        staging = self.open_staging()
        had_manifest = self._directory.stat(MANIFEST_PATH) is not None
        record = TransactionRecord(
            tx=self._tx,
            from_commit=from_commit,
            to_commit=to_commit,
            steps=steps,
            has_manifest=manifest is not None,
            had_manifest=had_manifest,
            keeps_undo=sum(step.was_size for step in steps) <= self._volume.undo_cap,
        )
        journal.check_other_filesystems(
            self._directory, staging.folder, steps, self._volume.reserve
        )
        journal.write_documents(staging, record)
        if manifest is not None:
            staging.write_document(journal.MANIFEST_NAME, manifests.encode(manifest))
            self._volume.manifest.cache(manifest, staging.document_path(journal.MANIFEST_NAME))
        staging.sync(step.staged for step in steps if step.staged is not None)
        Undo(self._directory, self._tx).save(record, self._volume.reserve)
        self._check()
        self._volume.lock.check_record()
        journal.mark_committed(self._directory, staging.folder)
        self.is_committed = True
        return record

    def _complete(self, record: TransactionRecord) -> TransactionEnd:
        entry = Journal(self._tx, "forward")
        volume = self._volume
        return TransactionCompletion(
            self._directory, entry, volume.modes, volume.lock.check, record
        ).run()

    def _replace_manifest(self, manifest: Manifest | None) -> None:
        """Install a manifest that differs although no file does."""
        if manifest is not None and manifest != self._volume.manifest.read():
            self.open_staging()
            state_directory.replace_document(
                self._directory, MANIFEST_PATH, manifests.encode(manifest)
            )


def _apply_result(end: TransactionEnd) -> ApplyResult:
    if end.cause is not None:
        raise end.cause
    record = end.record
    warnings = () if record.keeps_undo else (_NO_UNDO_WARNING,)
    return ApplyResult(
        tx=record.tx,
        from_commit=record.from_commit,
        to_commit=record.to_commit,
        put=sum(step.op == "put" for step in record.steps),
        deleted=sum(step.op == "delete" for step in record.steps),
        bytes_written=sum(step.size for step in record.steps),
        touched=end.touched,
        warnings=warnings,
    )


def _new_transaction_id(directory: DataDirectory) -> str:
    """A name that sorts after those of all transactions of which something is left."""
    transactions = (*staging.staged_transactions(directory), *undo.undo_transactions(directory))
    numbers = (tx.partition("-")[0] for tx in transactions)
    last = max((int(number) for number in numbers if number.isdecimal()), default=0)
    return f"{last + 1:08d}-{secrets.token_hex(4)}"
