"""One apply: contents are staged one after the other, then a plan is committed as a whole.

    transaction = volume.begin()
    transaction.stage(path, content)          any number of times
    transaction.commit(plan, manifest)        or abandon(), or leaving the block

Nothing is written before the first content or a commit with something to do. Until the commit
point the old tree is untouched and `interrupt`, from any thread, ends the transaction; after it
the transaction is taken to its end, and `interrupt` does nothing.
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
_NO_UNDO_WARNING = "UndoUnavailable: the replaced files are too large to be kept for a rollback"


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What a commit did; `tx` is empty if there was nothing to do but to remember."""

    tx: str
    from_commit: str
    to_commit: str
    put: int = 0
    deleted: int = 0
    bytes_written: int = 0
    touched: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VolumeContext:
    """A data volume and how we write to it."""

    directory: DataDirectory
    lock: VolumeLock
    modes: FileModes
    reserve: DiskReserve
    undo_cap: int
    manifest: ManifestFile


class Transaction:
    """From the first staged content to the end."""

    def __init__(self, volume: VolumeContext) -> None:
        self._volume = volume
        self._directory = volume.directory
        self._staged: dict[str, StagedContent] = {}
        self._staging: Staging | None = None
        self._tx = ""
        self._lock_stack = contextlib.ExitStack()
        self._interrupted = threading.Event()
        self._is_over = False
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
        """Give up unless the commit point is passed; callable from any thread."""
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
        """Carry out `plan`; afterwards the volume remembers `manifest`.

        Stats of written files in `manifest` are taken from what was written.
        """
        plans.check_guards(plan)
        changes = [self._operation(op) for op in plan.ops]
        written = {change.path: change.staged.stat for change in changes if change.staged}
        remembered = state_directory.with_stats(manifest, written)
        return self.apply(changes, remembered, plan.from_commit, plan.to_commit)

    def revert(self, record: TransactionRecord) -> ApplyResult:
        """Undo a transaction that succeeded, with the contents that it kept."""
        with data_directory.map_os_errors(_STAGING_ACTION):
            kept = Undo(self._directory, record.tx)
            before = (
                state_directory.read_manifest(self._directory, kept.manifest_path)
                if record.had_manifest
                else None
            )
            changes = list(undo.inverse_operations(self._directory, record, self.open_staging()))
        return self.apply(changes, before, record.to_commit, record.from_commit)

    def apply(
        self,
        changes: Sequence[FileOperation],
        manifest: Manifest | None,
        from_commit: str,
        to_commit: str,
    ) -> ApplyResult:
        """Make all of `changes` or none; afterwards the volume remembers `manifest`."""
        try:
            with data_directory.map_os_errors(_STAGING_ACTION):
                self._check()
                steps = StepPreparation(self._directory).steps(changes)
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
            raise Retryable("Retrying", "given up before the commit point for something newer")
        if self._staging is not None:
            self._volume.lock.check()

    def _operation(self, op: PlanStep) -> FileOperation:
        if op.op != "put":
            return FileOperation(op.op, op.path)
        staged = self._staged.get(op.path)
        if staged is None or (staged.sha256, staged.size) != (op.sha256, op.size):
            raise ValueError(f"the content that the plan wants for {op.path} was not staged")
        return FileOperation("put", op.path, staged)

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
        found = Journal(self._tx, "forward")
        target = self._volume
        return TransactionCompletion(
            self._directory, found, target.modes, target.lock.check, record
        ).run()

    def _replace_manifest(self, manifest: Manifest | None) -> None:
        """Keep a manifest that differs although no file does."""
        if manifest is not None and manifest != self._volume.manifest.read():
            self.open_staging()
            state_directory.replace_document(
                self._directory, MANIFEST_PATH, manifests.encode(manifest)
            )


def _apply_result(ended: TransactionEnd) -> ApplyResult:
    if ended.cause is not None:
        raise ended.cause
    record = ended.record
    warnings = () if record.keeps_undo else (_NO_UNDO_WARNING,)
    return ApplyResult(
        tx=record.tx,
        from_commit=record.from_commit,
        to_commit=record.to_commit,
        put=sum(step.op == "put" for step in record.steps),
        deleted=sum(step.op == "delete" for step in record.steps),
        bytes_written=sum(step.size for step in record.steps),
        touched=ended.touched,
        warnings=warnings,
    )


def _new_transaction_id(tree: DataDirectory) -> str:
    """A name that sorts after those of all transactions of which something is left."""
    left = (*staging.staged_transactions(tree), *undo.undo_transactions(tree))
    numbers = (tx.partition("-")[0] for tx in left)
    last = max((int(number) for number in numbers if number.isdecimal()), default=0)
    return f"{last + 1:08d}-{secrets.token_hex(4)}"
