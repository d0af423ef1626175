"""The data volume of one gateway: lock, transactions, replay after a crash, rollback and reads.

Start here: the agent's operations call `DataVolume`, and all other modules of this package serve
it. Whatever kills the agent or cuts the power, after `replay` the managed tree is exactly the old
or exactly the new one, as the manifest describes it, and nothing temporary is left. A reader of
the tree never sees a part of a file. The order of steps is in `journal`. All calls block and
belong in a thread; one transaction runs at a time.

At SIGTERM the caller interrupts the transaction and waits for its thread for as long as it may:
before the commit point it ends at once, past it it runs to its end, and if the time is over the
journal resumes it at the next start.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from windlass.base.clock import Clock, SystemClock
from windlass.base.errors import Stalled
from windlass.gateways.tree.live_tree import LiveTree, SurveyScope
from windlass.gateways.tree.manifest import Manifest
from windlass.gateways.tree.path_rules import STATE_DIRECTORY
from windlass.gateways.volume import data_directory, journal, staging, state_directory, survey, undo
from windlass.gateways.volume.completion import (
    TransactionCompletion,
    TransactionEnd,
    remove_older_undo,
)
from windlass.gateways.volume.data_directory import DataDirectory
from windlass.gateways.volume.journal import TransactionRecord
from windlass.gateways.volume.lock import LockOwner, VolumeLock
from windlass.gateways.volume.staging import DiskReserve
from windlass.gateways.volume.state_directory import STAGING_DIRECTORY, ManifestFile
from windlass.gateways.volume.transaction import ApplyResult, Transaction, VolumeContext
from windlass.gateways.volume.undo import Undo


class DataVolume:
    """One gateway's data directory; reads need no lock, changes need `start` first.

    `undo_cap` is the size in bytes up to which replaced files are kept for a rollback.
    """

    def __init__(
        self,
        data: Path,
        owner: LockOwner,
        *,
        clock: Clock | None = None,
        reserve: DiskReserve | None = None,
        undo_cap: int = undo.MAX_UNDO_BYTES,
    ) -> None:
        with data_directory.map_os_errors(f"opening {data}"):
            self.directory = DataDirectory(data)
        self._lock = VolumeLock(
            self.directory,
            state_directory.LOCK_PATH,
            owner,
            clock if clock is not None else SystemClock(),
        )
        self._reserve = reserve if reserve is not None else DiskReserve()
        self._undo_cap = undo_cap
        self._manifest = ManifestFile(self.directory)

    def close(self) -> None:
        self._lock.release()
        self.directory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Changes

    def start(self) -> TransactionEnd | None:
        """Take the lock and complete an interrupted transaction; return how that one ended.

        Raises `VolumeLocked` while another agent works on the volume: try again later.
        """
        with data_directory.map_os_errors("locking the data volume"):
            self._take_lock()
        return self.replay()

    def replay(self) -> TransactionEnd | None:
        """Take an interrupted transaction to one of its ends and remove what crashes left."""
        with data_directory.map_os_errors("resuming an interrupted sync"):
            # A cached manifest was read or written here, so its schema is supported.
            known = (state_directory.MANIFEST_PATH,) if self._manifest.is_cached else ()
            state_directory.check_schemas(self.directory, known=known)
            entry = journal.read_journal(self.directory)
            if entry is None:
                self._remove_leftovers()
                return None
            context = self._context()
            with self._lock.transaction():
                end = TransactionCompletion(
                    self.directory, entry, context.modes, self._lock.check
                ).run()
                self._remove_leftovers()
            return end

    def begin(self) -> Transaction:
        """A new transaction on a consistent tree; nothing is written yet."""
        with data_directory.map_os_errors("locking the data volume"):
            self._take_lock()
        self.replay()
        return Transaction(self._context())

    def rollback(self) -> ApplyResult:
        """Undo the last apply; this is an apply of its own and can be undone."""
        with self.begin() as transaction:
            record = self._undoable_record()
            if record is None:
                raise Stalled(
                    "UndoUnavailable",
                    "rollback is not possible: the replaced files were not kept; sync an "
                    "earlier commit instead",
                )
            return transaction.revert(record)

    # Reads

    def manifest(self) -> Manifest | None:
        """The managed tree as the last sync left it; None before the first one."""
        with data_directory.map_os_errors("reading the manifest"):
            return self._manifest.read()

    def survey(self, scope: SurveyScope, manifest: Manifest | None = None) -> LiveTree:
        """The stats of everything in `scope`, without reading any content.

        Stats that equal those of the manifest are the same objects, which saves memory.
        """
        with data_directory.map_os_errors("inspecting the gateway's files"):
            manifest_files = manifest.files if manifest is not None else {}
            return survey.DirectorySurvey(self.directory, manifest_files).run(scope)

    def hash_files(self, paths: Iterable[str]) -> dict[str, str]:
        """The sha256 digests of the plain files among `paths`."""
        with data_directory.map_os_errors("reading the gateway's files"):
            return survey.hash_files(self.directory, paths)

    def interrupted_transaction(self) -> TransactionRecord | None:
        """The transaction past its commit point that `start` would end; usually None."""
        with data_directory.map_os_errors("reading the journal"):
            entry = journal.read_journal(self.directory)
            if entry is None:
                return None
            return journal.read_record(
                self.directory, f"{STAGING_DIRECTORY}/{entry.tx}/{journal.RECORD_NAME}"
            )

    def has_no_journal(self) -> bool:
        """Whether no transaction is past its commit point, as far as the volume can be read."""
        try:
            return self.directory.stat(state_directory.JOURNAL_PATH) is None
        except OSError:
            return False

    def can_undo(self) -> bool:
        """Whether `rollback` has something to go back to."""
        with data_directory.map_os_errors("reading the undo directory"):
            return self._undoable_record() is not None

    def newest_transaction(self) -> str:
        """The transaction that `rollback` would undo; empty before the first one."""
        with data_directory.map_os_errors("reading the undo directory"):
            return undo.newest_transaction(self.directory) or ""

    def _undoable_record(self) -> TransactionRecord | None:
        tx = undo.newest_transaction(self.directory)
        if tx is None:
            return None
        record = journal.read_record(self.directory, Undo(self.directory, tx).record_path)
        return record if record.keeps_undo else None

    def _take_lock(self) -> None:
        state_directory.create_directories(self.directory)
        if not self._lock.is_held:
            # A crash may have created the directories without making them durable.
            for folder in (STATE_DIRECTORY, ""):
                self.directory.sync(folder)
        self._lock.acquire()

    def _context(self) -> VolumeContext:
        root = self.directory.stat("")
        assert root is not None
        modes = staging.modes_for_process(root)
        return VolumeContext(
            self.directory, self._lock, modes, self._reserve, self._undo_cap, self._manifest
        )

    def _remove_leftovers(self) -> None:
        """Remove staging and undo of dead transactions; without a journal none is alive."""
        leftovers = staging.staged_transactions(self.directory)
        if leftovers:
            # Make the removal of a journal durable first: one that a power cut brings back
            # must find its staging.
            self.directory.sync(STATE_DIRECTORY)
        for tx in leftovers:
            staging.remove_staging(self.directory, tx)
        remove_older_undo(self.directory, undo.newest_transaction(self.directory))
        state_directory.remove_leftovers(self.directory)
