"""Turns planned changes into steps, by what really lies on the disk.

A plan was made a moment ago; the gateway may have written since. Each change is looked at
as if all changes before it were done already. A change that is done already is left out,
one that can no longer be done as planned sends the sync back to planning, one that leads
over a symlink or into a protected path refuses it. Nothing is changed here.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from windlass.base.errors import Retryable
from windlass.gateways.agent.journal import Kind, OpName, Step
from windlass.gateways.agent.space import Reserve
from windlass.gateways.agent.staging import Staged
from windlass.gateways.agent.tree import Tree, UnsafePath
from windlass.gateways.decide import paths, protected


@dataclass(frozen=True, slots=True)
class Change:
    """One wanted change; `staged` is the content of a put."""

    op: OpName
    path: str
    staged: Staged | None = None


class Preparation:
    """The steps of one transaction, in the order of the plan."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._after: dict[str, Kind] = {}

    def steps(self, changes: Iterable[Change]) -> tuple[Step, ...]:
        return tuple(step for change in changes for step in self._steps(change))

    def _steps(self, change: Change) -> Iterator[Step]:
        if protected.is_protected(change.path):
            raise UnsafePath(change.path, "protected and never changed by a sync")
        found, size = self._look(change.path)
        if change.op in ("mkdir", "put"):
            yield from self._missing_folders(change.path)
        if change.op == "put":
            yield self._put(change, found, size)
        elif change.op == "mkdir" and self._expect(change, found, "", "directory"):
            yield self._step(change, found, then="directory")
        elif change.op == "delete" and self._expect(change, found, "file", ""):
            yield self._step(change, found, then="", was_size=size)
        elif change.op == "rmdir" and found == "directory":
            yield self._step(change, found, then="")

    def _put(self, change: Change, found: Kind, size: int) -> Step:
        assert change.staged is not None
        if found == "directory":
            raise _changed(change.path, "a directory where a file should go")
        self._after[change.path] = "file"
        staged = change.staged
        return Step(
            "put", change.path, found, staged.number, staged.sha256, staged.size, was_size=size
        )

    def _step(self, change: Change, found: Kind, *, then: Kind, was_size: int = 0) -> Step:
        self._after[change.path] = then
        return Step(change.op, change.path, found, was_size=was_size)

    def _expect(self, change: Change, found: Kind, before: Kind, done: Kind) -> bool:
        """Whether there is something to do: `before` is there, and not `done` already."""
        if found not in (before, done):
            raise _changed(change.path, f"a {found} that was not there")
        return found == before

    def _missing_folders(self, path: str) -> Iterator[Step]:
        for folder in reversed(list(paths.parents(path))):
            found, _ = self._look(folder)
            if found == "file":
                raise _changed(folder, "a file where a directory should be")
            self._after[folder] = "directory"
            if found == "":
                yield Step("mkdir", folder, "")

    def _look(self, path: str) -> tuple[Kind, int]:
        if path in self._after:
            return self._after[path], 0
        found = self._tree.stat(path)
        if found is None:
            return "", 0
        if stat.S_ISDIR(found.st_mode):
            return "directory", 0
        if not stat.S_ISREG(found.st_mode):
            raise UnsafePath(path, "a symlink or another special file")
        return "file", found.st_size


def check_space_across(tree: Tree, staging: str, steps: Iterable[Step], reserve: Reserve) -> None:
    """Raise DiskFull where contents for another file system would not fit there."""
    wanted: dict[str, int] = {}
    for step in steps:
        if step.op == "put":
            above = paths.parent(step.path)
            wanted[above] = wanted.get(above, 0) + step.size
    per_device: dict[int, tuple[str, int]] = {}
    for above, size in wanted.items():
        folder = _nearest_folder(tree, above)
        found = tree.stat(folder)
        if found is not None and tree.is_across(staging, folder):
            _, before = per_device.get(found.st_dev, ("", 0))
            per_device[found.st_dev] = (folder, before + size)
    for folder, size in per_device.values():
        reserve.check(tree, folder, size)


def _nearest_folder(tree: Tree, path: str) -> str:
    while path:
        found = tree.stat(path)
        if found is not None and stat.S_ISDIR(found.st_mode):
            return path
        path = paths.parent(path)
    return ""


def _changed(path: str, what: str) -> Retryable:
    return Retryable("Retrying", f"{path} is {what} when the plan was made; it is planned again")
