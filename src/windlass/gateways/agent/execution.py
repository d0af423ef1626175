"""Carries out the steps of a transaction, or takes them back (APP-6, APP-7).

Every step can be done again at any time, and every revert too: a file is compared with
the one we hold by inode, which says in one look whether it is in place already (renaming
one name of a file over another of its names would silently do nothing). Directories that
were touched are synced once at the end, also those that an earlier run touched. Between
two steps `guard` may stop everything; the journal then resumes it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable

from windlass.base import failpoint
from windlass.gateways.agent import durability, placement, state_directory
from windlass.gateways.agent.journal import Record, Step
from windlass.gateways.agent.modes import Modes
from windlass.gateways.agent.tree import Tree, UnsafePath
from windlass.gateways.agent.undo import Undo
from windlass.gateways.decide import paths


class Execution:
    """The steps of one record, in either direction."""

    def __init__(self, tree: Tree, record: Record, modes: Modes, guard: Callable[[], None]) -> None:
        self._tree = tree
        self._record = record
        self._modes = modes
        self._guard = guard
        self._undo = Undo(tree, record.tx)
        self._staging = f"{state_directory.STAGING}/{record.tx}"

    def forward(self) -> None:
        """Make the new tree, durably; OSError or UnsafePath where a step cannot be done."""
        for number, step in enumerate(self._record.steps):
            self._guard()
            failpoint.reach(f"gateways.execute.{step.op}.before")
            self._do(number, step)
            failpoint.reach(f"gateways.execute.{step.op}.after")
        self._settle()

    def back(self) -> None:
        """Make the old tree, durably."""
        for number, step in reversed(list(enumerate(self._record.steps))):
            self._guard()
            failpoint.reach(f"gateways.revert.{step.op}.before")
            self._revert(number, step)
            failpoint.reach(f"gateways.revert.{step.op}.after")
        self._settle()

    def staged(self, step: Step) -> str:
        """Where the new content of a put lies."""
        return f"{self._staging}/{step.staged}"

    def _do(self, number: int, step: Step) -> None:
        if step.op == "put":
            self._put(number, step)
        elif step.op == "delete":
            self._remove_file(step.path)
        elif step.op == "mkdir":
            self._make_folder(step.path)
        else:
            self._remove_folder(step.path)

    def _revert(self, number: int, step: Step) -> None:
        if step.op == "put":
            placement.discard(self._tree, placement.beside(step.path, self._tag(number)))
        if step.was == "file":
            self._restore(number, step)
        elif step.op == "put":
            self._remove_file(step.path)
        elif step.op == "mkdir":
            self._remove_folder(step.path)
        elif step.was == "directory":
            self._make_folder(step.path)

    def _put(self, number: int, step: Step) -> None:
        held = self.staged(step)
        if self._tree.stat(held) is None:
            self._expect_content(step)
        else:
            self._place(held, step.path, self._tag(number))

    def _restore(self, number: int, step: Step) -> None:
        for folder in reversed(list(paths.parents(step.path))):
            self._make_folder(folder)
        self._place(self._undo.content(number), step.path, self._tag(number))

    def _place(self, held: str, path: str, tag: str) -> None:
        found, ours = self._plain(path), self._tree.stat(held)
        if ours is None:
            raise state_directory.broken(held, "it is missing")
        if found is None or not os.path.samestat(found, ours):
            placement.place(self._tree, held, path, tag=tag)

    def _expect_content(self, step: Step) -> None:
        """Somebody emptied our staging; the step counts as done if its result is there."""
        if self._plain(step.path) is None or digest(self._tree, step.path) != step.sha256:
            raise OSError(errno.ENOENT, "the staged content is gone", step.path)

    def _remove_file(self, path: str) -> None:
        found = self._tree.stat(path)
        if found is None or stat.S_ISDIR(found.st_mode):
            # A directory there is a later step that an earlier run has already done.
            return
        self._plain(path)
        self._tree.unlink(path)

    def _make_folder(self, path: str) -> None:
        found = self._tree.stat(path)
        if found is None:
            self._tree.mkdir(path, self._modes.directory)
        elif not stat.S_ISDIR(found.st_mode):
            raise UnsafePath(path, "not a directory")

    def _remove_folder(self, path: str) -> None:
        """What somebody filled meanwhile stays."""
        try:
            self._tree.rmdir(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY):
                raise

    def _plain(self, path: str) -> os.stat_result | None:
        """The plain file at `path`; a symlink there is neither replaced nor removed."""
        found = self._tree.stat(path)
        if found is not None and not stat.S_ISREG(found.st_mode):
            raise UnsafePath(path, "not a plain file")
        return found

    def _settle(self) -> None:
        durability.settle(self._tree, (paths.parent(step.path) for step in self._record.steps))

    def _tag(self, number: int) -> str:
        return f"{self._record.tx}-{number}"


def digest(tree: Tree, path: str) -> str:
    """The sha256 of a plain file, read in parts."""
    with contextlib.closing(os.fdopen(tree.open(path), "rb")) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
