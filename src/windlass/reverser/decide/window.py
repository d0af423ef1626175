"""The commits of one window: as few as keep the order of every object (CMT-3).

Rules, in order:

1. A path that ends where the index has it makes nothing, whoever touched it between.
2. Consecutive changes of one path by one signature collapse to the last of them; a
   change to what the path holds already is none.
3. A change joins the latest commit of its signature, unless a later commit touches its
   path already; then it opens a commit at the end.
4. The operation of a change is read off the state before its commit (RUL-7), because
   collapsing may have turned a create and an update into one create.

A signature is author, tier, user and why nobody is named: the trailers of a commit state
one of each, so an exact and a chain change of one user never share a commit. Changes of a sync have
the committer as author and no user.

Whatever came of these rules is then cut at the ceilings of a commit (`capped`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import TypeAlias

from windlass.objects.names import Identity
from windlass.reverser.decide import transition
from windlass.reverser.decide.attribution import Miss, Tier
from windlass.reverser.decide.author import Author
from windlass.reverser.decide.transition import Operation

Signature: TypeAlias = tuple[Author, Tier, str, Miss]


@dataclass(frozen=True, slots=True)
class Change:
    """A file as it must stand after one event; no blob means that it must be gone."""

    path: str
    identity: Identity
    blob: str | None
    size: int
    author: Author
    tier: Tier
    user: str
    received: datetime
    op: Operation
    reason: str = ""
    at: int = 0
    """The position in its window of the arrival that it comes from."""
    miss: Miss = ""

    @property
    def signature(self) -> Signature:
        return self.author, self.tier, self.user, self.miss


@dataclass(frozen=True, slots=True)
class PlannedCommit:
    """What one commit will hold; never empty, each path once."""

    author: Author
    tier: Tier
    user: str
    changes: tuple[Change, ...]
    miss: Miss = ""

    @property
    def received(self) -> datetime:
        """Receipt of the newest event, which is the author date (CMT-6)."""
        return max(change.received for change in self.changes)


class Overlay(Mapping[str, str]):
    """The index as it will stand once `edits` are pushed; the index is not copied."""

    def __init__(self, index: Mapping[str, str], edits: Mapping[str, str | None]) -> None:
        self.index = index
        self.edits = edits

    def __getitem__(self, path: str) -> str:
        blob = self.edits[path] if path in self.edits else self.index[path]
        if blob is None:
            raise KeyError(path)
        return blob

    def __iter__(self) -> Iterator[str]:
        yield from (path for path in self.index if path not in self.edits)
        yield from (path for path, blob in self.edits.items() if blob is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def overlay(index: Mapping[str, str], changes: Iterable[Change]) -> Overlay:
    """The index after `changes`, in which the next event finds what stands at its path."""
    edits: dict[str, str | None] = {change.path: change.blob for change in changes}
    return Overlay(index, edits)


def commits(changes: Sequence[Change], index: Mapping[str, str]) -> tuple[PlannedCommit, ...]:
    """CMT-3: the commits that turn `index` into the state after `changes`."""
    return replanned(_grouped(_collapsed(changes, index)), index)


def separate(changes: Iterable[Change], index: Mapping[str, str]) -> tuple[PlannedCommit, ...]:
    """One commit for each event, in order; neighbours that a snapshot found share one."""
    planned: list[PlannedCommit] = []
    done: list[Change] = []
    for is_sync, run in groupby(changes, key=lambda change: change.tier == "sync"):
        rows = tuple(run)
        together = commits(rows, overlay(index, done)) if is_sync else ()
        planned += together or [_planned((change,)) for change in rows if not is_sync]
        done += rows
    return tuple(planned)


def capped(
    planned: Iterable[PlannedCommit], *, files: int, size_bytes: int
) -> tuple[PlannedCommit, ...]:
    """The same changes in the same order, no commit above the ceilings.

    One file alone may be larger than `size_bytes`; it has a commit of its own then.
    """
    return tuple(part for commit in planned for part in _parts(commit, files, size_bytes))


def _parts(commit: PlannedCommit, files: int, size_bytes: int) -> Iterator[PlannedCommit]:
    part: list[Change] = []
    size = 0
    for change in commit.changes:
        if part and (len(part) >= files or size + change.size > size_bytes):
            yield replace(commit, changes=tuple(part))
            part, size = [], 0
        part.append(change)
        size += change.size
    yield replace(commit, changes=tuple(part))


def replanned(
    planned: Iterable[PlannedCommit], index: Mapping[str, str]
) -> tuple[PlannedCommit, ...]:
    """GIT-7: the same commits on another tip; what became a no-op there is dropped.

    Authors and dates are kept, operations are read anew.
    """
    edits: dict[str, str | None] = {}
    state = Overlay(index, edits)
    kept: list[PlannedCommit] = []
    for commit in planned:
        real = tuple(_real_changes(commit.changes, state))
        edits.update((change.path, change.blob) for change in real)
        if real:
            kept.append(replace(commit, changes=real))
    return tuple(kept)


def _real_changes(changes: Iterable[Change], state: Mapping[str, str]) -> Iterator[Change]:
    for change in changes:
        done = transition.between(state.get(change.path), change.blob)
        if done is not None:
            yield change if change.op == done else replace(change, op=done)


def _collapsed(changes: Sequence[Change], index: Mapping[str, str]) -> list[Change]:
    """Rules 1 and 2, in the order of the last event of each run."""
    runs: dict[str, list[tuple[int, Change]]] = {}
    for at, change in enumerate(changes):
        _extend(runs.setdefault(change.path, []), at, change, index.get(change.path))
    net = [
        run
        for path, stack in runs.items()
        if stack and stack[-1][1].blob != index.get(path)
        for run in stack
    ]
    return [change for _, change in sorted(net, key=lambda run: run[0])]


def _extend(stack: list[tuple[int, Change]], at: int, change: Change, indexed: str | None) -> None:
    if stack and stack[-1][1].signature == change.signature:
        stack.pop()
    before = stack[-1][1].blob if stack else indexed
    if change.blob != before:
        stack.append((at, change))


def _grouped(changes: Iterable[Change]) -> list[PlannedCommit]:
    """Rule 3; every path occurs at most once in a group because runs are collapsed."""
    groups: list[dict[str, Change]] = []
    latest: dict[Signature, int] = {}
    touched: dict[str, int] = {}
    for change in changes:
        at = latest.get(change.signature, -1)
        if at < 0 or touched.get(change.path, -1) > at:
            groups.append({})
            at = latest[change.signature] = len(groups) - 1
        groups[at][change.path] = change
        touched[change.path] = at
    return [_planned(tuple(group.values())) for group in groups]


def _planned(changes: tuple[Change, ...]) -> PlannedCommit:
    author, tier, user, miss = changes[0].signature
    return PlannedCommit(author, tier, user, changes, miss)
