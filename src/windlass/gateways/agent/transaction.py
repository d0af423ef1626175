"""One apply: contents are staged one after the other, then everything happens at once.

    transaction = applier.begin()
    transaction.stage(path, content)          any number of times
    transaction.commit(plan, manifest)        or abandon(), or leaving the block

Nothing is written before the first content or a commit with something to do. Until the
commit point the old tree is untouched and `interrupt`, from any thread, ends the
transaction; after it the transaction is taken to its end, and `interrupt` does nothing.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from windlass.base.errors import Retryable
from windlass.gateways.agent import (
    journal,
    manifest_file,
    preparation,
    staging,
    state_directory,
    undo,
    volume,
)
from windlass.gateways.agent.completion import Completion, Ended
from windlass.gateways.agent.journal import Journal, Record, Step
from windlass.gateways.agent.lock import VolumeLock
from windlass.gateways.agent.manifest_file import ManifestFile
from windlass.gateways.agent.modes import Modes
from windlass.gateways.agent.preparation import Change, Preparation
from windlass.gateways.agent.space import Reserve
from windlass.gateways.agent.staging import Staged, Staging
from windlass.gateways.agent.state_directory import MANIFEST
from windlass.gateways.agent.tree import Tree
from windlass.gateways.agent.undo import Undo
from windlass.gateways.decide import manifest as manifests
from windlass.gateways.decide import plan as plans
from windlass.gateways.decide.manifest import Manifest
from windlass.gateways.decide.ops import Op
from windlass.gateways.decide.plan import Plan

_STAGING = "staging the new files"
_NO_UNDO = "UndoUnavailable: the replaced files are too large to be kept for a rollback"


@dataclass(frozen=True, slots=True)
class Applied:
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
class Volume:
    """A data volume and how we write to it."""

    tree: Tree
    lock: VolumeLock
    modes: Modes
    reserve: Reserve
    undo_cap: int
    manifest: ManifestFile


class Transaction:
    """From the first staged content to the end."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self._tree = volume.tree
        self._staged: dict[str, Staged] = {}
        self._staging: Staging | None = None
        self._tx = ""
        self._locked = contextlib.ExitStack()
        self._interrupted = threading.Event()
        self._is_over = False
        self.is_committed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()

    def stage(self, path: str, content: bytes | Iterable[bytes]) -> Staged:
        """Write and hash the content that `path` is going to have."""
        with volume.faults(_STAGING):
            self._check()
            self._staged[path] = self.opened().add(content)
        return self._staged[path]

    def interrupt(self) -> None:
        """Give up unless the commit point is passed; callable from any thread."""
        self._interrupted.set()

    def abandon(self) -> None:
        """Drop what was staged; nothing to do after a commit."""
        if self._is_over:
            return
        self._is_over = True
        with self._locked, contextlib.suppress(OSError):
            if self._staging is not None and not self.is_committed:
                # Staging must outlive a journal that may still be on the disk.
                journal.withdraw(self._tree, self._tx)
                Undo(self._tree, self._tx).drop()
                self._staging.drop()

    def commit(self, plan: Plan, manifest: Manifest) -> Applied:
        """Carry out `plan`; afterwards the volume remembers `manifest`.

        Stats of written files in `manifest` are taken from what was written.
        """
        plans.check(plan)
        changes = [self._change(op) for op in plan.ops]
        written = {change.path: change.staged.stat for change in changes if change.staged}
        remembered = manifest_file.with_stats(manifest, written)
        return self.carry_out(changes, remembered, plan.from_commit, plan.to_commit)

    def revert(self, record: Record) -> Applied:
        """Undo a transaction that succeeded, with the contents that it kept."""
        with volume.faults(_STAGING):
            kept = Undo(self._tree, record.tx)
            before = manifest_file.read(self._tree, kept.manifest) if record.had_manifest else None
            changes = list(undo.inverse(self._tree, record, self.opened()))
        return self.carry_out(changes, before, record.to_commit, record.from_commit)

    def carry_out(
        self,
        changes: Sequence[Change],
        manifest: Manifest | None,
        from_commit: str,
        to_commit: str,
    ) -> Applied:
        """Make all of `changes` or none; afterwards the volume remembers `manifest`."""
        try:
            with volume.faults(_STAGING):
                self._check()
                steps = Preparation(self._tree).steps(changes)
                if not steps:
                    self._remember(manifest)
                    return Applied("", from_commit, to_commit)
                record = self._commit(steps, manifest, from_commit, to_commit)
            with volume.faults("finishing the sync"):
                return _applied(self._complete(record))
        finally:
            self.abandon()

    def opened(self) -> Staging:
        """The staging directory; the first call takes the lock and writes for the first time."""
        if self._staging is None:
            self._locked.enter_context(self._volume.lock.transaction())
            self._tx = _next_tx(self._tree)
            staging = Staging(self._tree, self._tx, self._volume.modes, self._volume.reserve)
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

    def _change(self, op: Op) -> Change:
        if op.op != "put":
            return Change(op.op, op.path)
        staged = self._staged.get(op.path)
        if staged is None or (staged.sha256, staged.size) != (op.sha256, op.size):
            raise ValueError(f"the content that the plan wants for {op.path} was not staged")
        return Change("put", op.path, staged)

    def _commit(
        self,
        steps: tuple[Step, ...],
        manifest: Manifest | None,
        from_commit: str,
        to_commit: str,
    ) -> Record:
        """Everything up to and including the commit point (APP-5, in this order)."""
        staging = self.opened()
        had_manifest = self._tree.stat(MANIFEST) is not None
        record = Record(
            tx=self._tx,
            from_commit=from_commit,
            to_commit=to_commit,
            steps=steps,
            has_manifest=manifest is not None,
            had_manifest=had_manifest,
            keeps_undo=sum(step.was_size for step in steps) <= self._volume.undo_cap,
        )
        preparation.check_space_across(self._tree, staging.folder, steps, self._volume.reserve)
        journal.write_papers(staging, record)
        if manifest is not None:
            staging.write_paper(journal.MANIFEST, manifests.encode(manifest))
            self._volume.manifest.expect(manifest, staging.paper(journal.MANIFEST))
        staging.settle(step.staged for step in steps if step.staged is not None)
        Undo(self._tree, self._tx).keep(record, self._volume.reserve)
        self._check()
        self._volume.lock.recheck()
        journal.commit(self._tree, staging.folder)
        self.is_committed = True
        return record

    def _complete(self, record: Record) -> Ended:
        found = Journal(self._tx, "forward")
        target = self._volume
        return Completion(self._tree, found, target.modes, target.lock.check, record).run()

    def _remember(self, manifest: Manifest | None) -> None:
        """Keep a manifest that differs although no file does."""
        if manifest is not None and manifest != self._volume.manifest.read():
            self.opened()
            state_directory.replace(self._tree, MANIFEST, manifests.encode(manifest))


def _applied(ended: Ended) -> Applied:
    if ended.cause is not None:
        raise ended.cause
    record = ended.record
    warnings = () if record.keeps_undo else (_NO_UNDO,)
    return Applied(
        tx=record.tx,
        from_commit=record.from_commit,
        to_commit=record.to_commit,
        put=sum(step.op == "put" for step in record.steps),
        deleted=sum(step.op == "delete" for step in record.steps),
        bytes_written=sum(step.size for step in record.steps),
        touched=ended.touched,
        warnings=warnings,
    )


def _next_tx(tree: Tree) -> str:
    """A name that sorts after those of all transactions of which something is left."""
    left = (*staging.leftovers(tree), *undo.kept(tree))
    numbers = (tx.partition("-")[0] for tx in left)
    last = max((int(number) for number in numbers if number.isdecimal()), default=0)
    return f"{last + 1:08d}-{secrets.token_hex(4)}"
