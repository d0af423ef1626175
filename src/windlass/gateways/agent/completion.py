"""Takes a transaction that is past its commit point to one of its two ends.

It goes forward; where a step cannot be done it turns back. Either end leaves the tree and
the manifest of that end, both durable before the journal goes. If it can do neither, or the
lock is lost, the journal stays and the next replay goes on.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from windlass.base import failpoint
from windlass.base.errors import WindlassError
from windlass.gateways.agent import (
    journal,
    manifest_file,
    placement,
    staging,
    state_directory,
    volume,
)
from windlass.gateways.agent.execution import Execution, digest
from windlass.gateways.agent.journal import Journal, Record, Step
from windlass.gateways.agent.modes import Modes
from windlass.gateways.agent.state_directory import MANIFEST, STAGING
from windlass.gateways.agent.tree import Tree, UnsafePath
from windlass.gateways.agent.undo import Undo, kept
from windlass.gateways.decide import manifest as manifests
from windlass.gateways.decide.manifest import Stat
from windlass.gateways.decide.protected import STATE


@dataclass(frozen=True, slots=True)
class Ended:
    """Which tree a transaction ended with; `cause` says why it is the old one.

    `touched` are files that somebody else wrote after us and before we were done.
    """

    record: Record
    tree: Literal["new", "old"]
    cause: WindlassError | None = None
    touched: tuple[str, ...] = ()


class Completion:
    """One transaction from its commit point to its end; whoever just wrote its record has it."""

    def __init__(
        self,
        tree: Tree,
        found: Journal,
        modes: Modes,
        guard: Callable[[], None],
        record: Record | None = None,
    ) -> None:
        self._tree = tree
        self._direction = found.direction
        self._staging = f"{STAGING}/{found.tx}"
        written = f"{self._staging}/{journal.RECORD}"
        self._record = record if record is not None else journal.read_record(tree, written)
        self._undo = Undo(tree, found.tx)
        self._execution = Execution(tree, self._record, modes, guard)

    def run(self) -> Ended:
        if self._direction == "back":
            return self._back(None)
        try:
            self._execution.forward()
        except (OSError, UnsafePath) as error:
            return self._turn_back(error)
        return self._finish()

    def _turn_back(self, error: OSError | UnsafePath) -> Ended:
        cause = _translated(error)
        try:
            journal.turn_back(self._tree, self._staging)
            return self._back(cause)
        except (OSError, UnsafePath):
            # The first fault is the one to tell; the journal stays for the next replay.
            raise cause from error

    def _finish(self) -> Ended:
        stats, touched = self._verify()
        self._place_manifest(stats)
        placement.place(
            self._tree, f"{self._staging}/{journal.RECORD}", self._undo.record, tag=journal.RECORD
        )
        self._tree.sync(self._undo.folder)
        journal.drop(self._tree)
        self._clean(self._drop_superseded)
        return Ended(self._record, "new", touched=touched)

    def _back(self, cause: WindlassError | None) -> Ended:
        self._execution.back()
        self._restore_manifest()
        placement.discard(self._tree, self._undo.record)
        self._tree.sync(self._undo.folder)
        journal.drop(self._tree)
        self._clean(self._undo.drop)
        return Ended(self._record, "old", cause)

    def _verify(self) -> tuple[dict[str, Stat | None], tuple[str, ...]]:
        """Stats that differ from the staged ones, and the files that are not ours any more."""
        stats: dict[str, Stat | None] = {}
        touched = []
        for step in self._record.steps:
            if step.op != "put":
                continue
            held = self._tree.stat(self._execution.staged(step))
            found = self._tree.stat(step.path)
            if found is None or not self._is_ours(found, held, step):
                stats[step.path] = None
                touched.append(step.path)
            elif held is None or manifest_file.stat_of(found) != manifest_file.stat_of(held):
                stats[step.path] = manifest_file.stat_of(found)
        return stats, tuple(touched)

    def _is_ours(self, found: os.stat_result, held: os.stat_result | None, step: Step) -> bool:
        """By inode and size; what had to be copied has another inode and is read again."""
        if found.st_size != step.size:
            return False
        if held is not None and os.path.samestat(found, held):
            return True
        return not step.sha256 or digest(self._tree, step.path) == step.sha256

    def _place_manifest(self, stats: dict[str, Stat | None]) -> None:
        failpoint.reach("gateways.manifest.before")
        staged = f"{self._staging}/{journal.MANIFEST}"
        if not self._record.has_manifest:
            placement.discard(self._tree, MANIFEST)
            self._tree.sync(STATE)
        elif stats and (planned := manifest_file.read(self._tree, staged)) is not None:
            corrected = manifests.encode(manifest_file.with_stats(planned, stats))
            state_directory.replace(self._tree, MANIFEST, corrected)
        else:
            placement.place(self._tree, staged, MANIFEST, tag=journal.MANIFEST)
            self._tree.sync(STATE)
        failpoint.reach("gateways.manifest.after")

    def _restore_manifest(self) -> None:
        if self._record.had_manifest:
            placement.place(self._tree, self._undo.manifest, MANIFEST, tag=journal.MANIFEST)
        else:
            placement.discard(self._tree, MANIFEST)
        self._tree.sync(STATE)

    def _drop_superseded(self) -> None:
        drop_older_undo(self._tree, self._record.tx)
        if not self._record.keeps_undo:
            # The record stays: it says that there is nothing to go back to.
            self._undo.drop_contents()

    def _clean(self, drop_undo: Callable[[], None]) -> None:
        """Drop what the end does not need; what cannot go now goes with the next replay."""
        failpoint.reach("gateways.clean.before")
        with contextlib.suppress(OSError):
            drop_undo()
            staging.drop(self._tree, self._record.tx)
        failpoint.reach("gateways.clean.after")


def drop_older_undo(tree: Tree, newest: str | None) -> None:
    """Drop every undo but the newest one."""
    for tx in kept(tree):
        if tx != newest:
            Undo(tree, tx).drop()


def _translated(error: OSError | UnsafePath) -> WindlassError:
    if isinstance(error, OSError):
        return volume.translated(error, "writing the gateway's files")
    return error
