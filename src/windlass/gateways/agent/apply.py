"""Brings planned files onto a gateway's disk, so that a crash at any moment is harmless.

Whatever kills the agent or cuts the power, after `replay` the managed tree is exactly the
old or exactly the new one, as the manifest says, and nothing of ours lies around. A reader
of the tree never sees a part of a file. The order of things is in `journal`. Everything
blocks and belongs in a thread; one transaction runs at a time.

At SIGTERM the caller interrupts the transaction and waits for its thread for as long as it
may: before the commit point it ends at once, past it it runs to its end, and if the time is
over the journal resumes it at the next start.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from windlass.base.clock import Clock, SystemClock
from windlass.base.errors import Stalled
from windlass.gateways.agent import journal, modes, staging, state_directory, survey, undo, volume
from windlass.gateways.agent.completion import Completion, Ended, drop_older_undo
from windlass.gateways.agent.journal import Record
from windlass.gateways.agent.lock import Owner, VolumeLock
from windlass.gateways.agent.manifest_file import ManifestFile
from windlass.gateways.agent.space import Reserve
from windlass.gateways.agent.state_directory import STAGING
from windlass.gateways.agent.transaction import Applied, Transaction, Volume
from windlass.gateways.agent.tree import Tree
from windlass.gateways.agent.undo import Undo
from windlass.gateways.decide.live import Live, Lookups
from windlass.gateways.decide.manifest import Manifest, Stat
from windlass.gateways.decide.protected import STATE


class Applier:
    """One gateway's data directory; looking needs nothing, changing needs `start` first."""

    def __init__(
        self,
        data: Path,
        owner: Owner,
        *,
        clock: Clock | None = None,
        reserve: Reserve | None = None,
        undo_cap: int = undo.CAP_BYTES,
    ) -> None:
        with volume.faults(f"opening {data}"):
            self.tree = Tree(data)
        self._lock = VolumeLock(
            self.tree, state_directory.LOCK, owner, clock if clock is not None else SystemClock()
        )
        self._reserve = reserve if reserve is not None else Reserve()
        self._undo_cap = undo_cap
        self._manifest = ManifestFile(self.tree)

    def close(self) -> None:
        self._lock.release()
        self.tree.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # changing

    def start(self) -> Ended | None:
        """Become the one who writes here, then finish what a crash left; what was resumed.

        Raises `VolumeLocked` while another agent works on the volume: ask again.
        """
        with volume.faults("taking the data volume's lock"):
            self._take_lock()
        return self.replay()

    def replay(self) -> Ended | None:
        """Take an interrupted transaction to one of its ends and sweep what crashes left."""
        with volume.faults("resuming an interrupted sync"):
            ours = (state_directory.MANIFEST,) if self._manifest.is_known else ()
            state_directory.check_schemas(self.tree, known=ours)
            found = journal.read(self.tree)
            if found is None:
                self._sweep()
                return None
            target = self._volume()
            with self._lock.transaction():
                ended = Completion(self.tree, found, target.modes, self._lock.check).run()
                self._sweep()
            return ended

    def begin(self) -> Transaction:
        """A new transaction on a tree that is whole; nothing is written yet."""
        with volume.faults("taking the data volume's lock"):
            self._take_lock()
        self.replay()
        return Transaction(self._volume())

    def rollback(self) -> Applied:
        """Undo the last apply; this is an apply of its own and can be undone."""
        with self.begin() as transaction:
            record = self._undoable()
            if record is None:
                raise Stalled(
                    "UndoUnavailable",
                    "the last apply cannot be undone: the files that it replaced are not kept; "
                    "sync an earlier commit instead",
                )
            return transaction.revert(record)

    # looking

    def manifest(self) -> Manifest | None:
        """What the last sync left; None before the first one."""
        with volume.faults("reading the manifest"):
            return self._manifest.read()

    def live(self, lookups: Lookups, manifest: Manifest | None = None) -> Live:
        """What lies on the disk, without reading a single content.

        Stats that the manifest has too are shared with it, not held twice.
        """
        with volume.faults("looking at the gateway's files"):
            left = manifest.files if manifest is not None else {}
            return survey.Survey(self.tree, left).live(lookups)

    def stats(self, paths: Iterable[str]) -> dict[str, Stat]:
        """The stats of the plain files among `paths`."""
        with volume.faults("looking at the gateway's files"):
            return survey.stats(self.tree, paths)

    def hashes(self, paths: Iterable[str]) -> dict[str, str]:
        """The sha256 digests of the plain files among `paths`."""
        with volume.faults("reading the gateway's files"):
            return survey.hashes(self.tree, paths)

    def interrupted(self) -> Record | None:
        """The transaction past its commit point that `start` would end; usually None."""
        with volume.faults("reading the journal"):
            found = journal.read(self.tree)
            if found is None:
                return None
            return journal.read_record(self.tree, f"{STAGING}/{found.tx}/{journal.RECORD}")

    def can_undo(self) -> bool:
        """Whether `rollback` has something to go back to."""
        with volume.faults("reading the undo"):
            return self._undoable() is not None

    def newest(self) -> str:
        """The transaction that `rollback` would undo; empty before the first one."""
        with volume.faults("reading the undo"):
            return undo.newest(self.tree) or ""

    def _undoable(self) -> Record | None:
        tx = undo.newest(self.tree)
        if tx is None:
            return None
        record = journal.read_record(self.tree, Undo(self.tree, tx).record)
        return record if record.keeps_undo else None

    def _take_lock(self) -> None:
        state_directory.create(self.tree)
        if not self._lock.is_held:
            # A crash may have made the directories and not have told the disk.
            for folder in (STATE, ""):
                self.tree.sync(folder)
        self._lock.acquire()

    def _volume(self) -> Volume:
        root = self.tree.stat("")
        assert root is not None
        fitting = modes.of_process(root)
        return Volume(self.tree, self._lock, fitting, self._reserve, self._undo_cap, self._manifest)

    def _sweep(self) -> None:
        """Without a journal no transaction is alive; what is left of one is rubbish."""
        left = staging.leftovers(self.tree)
        if left:
            # A journal that a power cut brings back must find its staging.
            self.tree.sync(STATE)
        for tx in left:
            staging.drop(self.tree, tx)
        drop_older_undo(self.tree, undo.newest(self.tree))
        state_directory.sweep(self.tree)
