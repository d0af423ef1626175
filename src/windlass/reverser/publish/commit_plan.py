"""Plans the commits of a closed window: as few as keep the order of every object (CMT-3).

The publisher calls `build_commit_plan`. The operation is taken from the Git transition, not from
the event: absent -> CREATE, present and different -> UPDATE, present and unwanted -> DELETE
(RUL-7). So masks mean the same live, after a relist and after a restart. A change that has no
effect, or is masked, leaves the window here, with a reason. Rules, in order:

1. A path that ends with the blob of the index needs no change, whoever touched it between.
2. Consecutive changes of one path by one signature collapse to the last of them; a
   change to the blob that the path has already is dropped.
3. A change joins the latest commit of its signature, unless a later commit touches its
   path already; then it opens a commit at the end.
4. The operation of a change follows from the state before its commit (RUL-7), because
   collapsing may have turned a create and an update into one create.

A signature is author, tier, user and the reason why no author is named: the trailers of a commit
state one of each, so an exact and a chain change of one user never share a commit. Changes of a
sync have the committer as author and no user. The result is then split at the ceilings of a
commit (`cap_commits`).

The author date is the receipt of the newest event of a commit, the committer date is the time of
the commit, both in whole seconds since 1970. A clock that jumps back never makes a commit older
than its parent.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import TypeAlias

from windlass.objects.names import Identity
from windlass.reverser import file_operation
from windlass.reverser.attribution.author import Author
from windlass.reverser.attribution.record_join import Tier, UnresolvedReason
from windlass.reverser.file_operation import Operation, PruneMode
from windlass.reverser.publish.cadence import WindowLimits
from windlass.reverser.publish.file_update import FileUpdate
from windlass.telemetry.reasons import SkipReason


@dataclass(frozen=True, slots=True)
class CommitDates:
    """Author and committer time, in whole seconds since 1970."""

    authored: int
    committed: int


def choose_dates(newest_event: float, now: float, *, parent: int | None = None) -> CommitDates:
    """Dates for a commit made `now` on a parent committed at `parent`."""
    committed = int(now) if parent is None else max(int(now), parent)
    return CommitDates(authored=min(int(newest_event), committed), committed=committed)


CommitSignature: TypeAlias = tuple[Author, Tier, str, UnresolvedReason]


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """The state of a file after one event, with the operation and the author."""

    path: str
    """From the root of the repository."""
    identity: Identity
    """The object of the file."""
    blob: str | None
    """Its blob id after the change; None if it is removed."""
    size: int
    """Bytes of the content; counts for the ceiling of a commit."""
    author: Author
    """Author of the commit; the committer for what a snapshot found."""
    tier: Tier
    """How well the author is proven; `sync` for what a snapshot found."""
    user: str
    """User name for subject and trailer; empty for what a snapshot found."""
    received: datetime
    """When the event was received, wall clock."""
    op: Operation
    """What the change does to the file, by the state before its commit."""
    reason: str = ""
    """Why the file is removed although its object may still exist; else empty."""
    position: int = 0
    """Position in its window of the update that it comes from."""
    unresolved_reason: UnresolvedReason = ""
    """Why no author is named; empty if one is."""

    @property
    def signature(self) -> CommitSignature:
        """What all changes of one commit have in common."""
        return self.author, self.tier, self.user, self.unresolved_reason


@dataclass(frozen=True, slots=True)
class PlannedCommit:
    """Changes of one commit and their signature; never empty, each path once."""

    author: Author
    tier: Tier
    user: str
    changes: tuple[PlannedChange, ...]
    unresolved_reason: UnresolvedReason = ""

    @property
    def received(self) -> datetime:
        """Receipt of the newest event, which is the author date (CMT-6)."""
        return max(change.received for change in self.changes)


class IndexOverlay(Mapping[str, str]):
    """The index once `edits` are pushed, as a view: the index is not copied."""

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


def overlay_index(index: Mapping[str, str], changes: Iterable[PlannedChange]) -> IndexOverlay:
    """The index after `changes`, with which the next change is compared."""
    edits: dict[str, str | None] = {change.path: change.blob for change in changes}
    return IndexOverlay(index, edits)


def plan_commits(
    changes: Sequence[PlannedChange], index: Mapping[str, str]
) -> tuple[PlannedCommit, ...]:
    """CMT-3: the commits that turn `index` into the state after `changes`."""
    return replan_commits(_group_by_signature(_collapse_runs(changes, index)), index)


def plan_separate_commits(
    changes: Iterable[PlannedChange], index: Mapping[str, str]
) -> tuple[PlannedCommit, ...]:
    """One commit for each event, in order; consecutive changes of snapshots share commits."""
    planned: list[PlannedCommit] = []
    earlier: list[PlannedChange] = []
    for is_sync, run in groupby(changes, key=lambda change: change.tier == "sync"):
        rows = tuple(run)
        snapshot_commits = plan_commits(rows, overlay_index(index, earlier)) if is_sync else ()
        planned += snapshot_commits or [_make_commit((change,)) for change in rows if not is_sync]
        earlier += rows
    return tuple(planned)


def cap_commits(
    planned: Iterable[PlannedCommit], *, files: int, size_bytes: int
) -> tuple[PlannedCommit, ...]:
    """The same changes in the same order, no commit above the ceilings.

    One file alone may be larger than `size_bytes`; it has a commit of its own then.
    """
    return tuple(part for commit in planned for part in _split_commit(commit, files, size_bytes))


def _split_commit(commit: PlannedCommit, files: int, size_bytes: int) -> Iterator[PlannedCommit]:
    part: list[PlannedChange] = []
    size = 0
    for change in commit.changes:
        if part and (len(part) >= files or size + change.size > size_bytes):
            yield replace(commit, changes=tuple(part))
            part, size = [], 0
        part.append(change)
        size += change.size
    yield replace(commit, changes=tuple(part))


def replan_commits(
    planned: Iterable[PlannedCommit], index: Mapping[str, str]
) -> tuple[PlannedCommit, ...]:
    """GIT-7: the same commits on another index, without changes that have no effect there.

    Authors and dates are kept, operations are computed again.
    """
    edits: dict[str, str | None] = {}
    state = IndexOverlay(index, edits)
    replanned: list[PlannedCommit] = []
    for commit in planned:
        effective = tuple(_effective_changes(commit.changes, state))
        edits.update((change.path, change.blob) for change in effective)
        if effective:
            replanned.append(replace(commit, changes=effective))
    return tuple(replanned)


def _effective_changes(
    changes: Iterable[PlannedChange], state: Mapping[str, str]
) -> Iterator[PlannedChange]:
    for change in changes:
        operation = file_operation.operation_between(state.get(change.path), change.blob)
        if operation is not None:
            yield change if change.op == operation else replace(change, op=operation)


def _collapse_runs(
    changes: Sequence[PlannedChange], index: Mapping[str, str]
) -> list[PlannedChange]:
    """Rules 1 and 2, in the order of the last event of each run."""
    runs: dict[str, list[tuple[int, PlannedChange]]] = {}
    for position, change in enumerate(changes):
        _extend_run(runs.setdefault(change.path, []), position, change, index.get(change.path))
    net = [
        run
        for path, stack in runs.items()
        if stack and stack[-1][1].blob != index.get(path)
        for run in stack
    ]
    return [change for _, change in sorted(net, key=lambda run: run[0])]


def _extend_run(
    stack: list[tuple[int, PlannedChange]],
    position: int,
    change: PlannedChange,
    indexed: str | None,
) -> None:
    if stack and stack[-1][1].signature == change.signature:
        stack.pop()
    before = stack[-1][1].blob if stack else indexed
    if change.blob != before:
        stack.append((position, change))


def _group_by_signature(changes: Iterable[PlannedChange]) -> list[PlannedCommit]:
    """Rule 3; every path occurs at most once in a group because runs are collapsed."""
    groups: list[dict[str, PlannedChange]] = []
    latest: dict[CommitSignature, int] = {}
    last_touched: dict[str, int] = {}
    for change in changes:
        group_index = latest.get(change.signature, -1)
        if group_index < 0 or last_touched.get(change.path, -1) > group_index:
            groups.append({})
            group_index = latest[change.signature] = len(groups) - 1
        groups[group_index][change.path] = change
        last_touched[change.path] = group_index
    return [_make_commit(tuple(group.values())) for group in groups]


def _make_commit(changes: tuple[PlannedChange, ...]) -> PlannedCommit:
    author, tier, user, unresolved_reason = changes[0].signature
    return PlannedCommit(author, tier, user, changes, unresolved_reason)


_DEFAULT_LIMITS = WindowLimits()


@dataclass(frozen=True, slots=True)
class AttributedUpdate:
    """A file update, and who is named as the author of its change."""

    update: FileUpdate
    signature: CommitSignature
    position: int = 0  # in its window


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """The commits in order, skipped objects with reasons, and the paths that `prune` keeps."""

    commits: tuple[PlannedCommit, ...]
    skipped: tuple[tuple[Identity, SkipReason], ...]
    retained: frozenset[str] = frozenset()


def build_commit_plan(
    desired: Iterable[AttributedUpdate],
    index: Mapping[str, str],
    *,
    separate: bool = False,
    prune: PruneMode = "Always",
    limits: WindowLimits = _DEFAULT_LIMITS,
) -> CommitPlan:
    """The commits that bring `desired`, in order, into a folder that has `index`.

    With `separate` every event has a commit of its own; what a snapshot found is no event. No
    commit exceeds `limits`.
    """
    changes: list[PlannedChange] = []
    skipped: list[tuple[Identity, SkipReason]] = []
    retained: set[str] = set()
    planned_blobs: dict[str, str | None] = {}
    for item in desired:
        update, (_, tier, _, _) = item.update, item.signature
        path = update.path
        current = planned_blobs[path] if path in planned_blobs else index.get(path)
        operation = file_operation.operation_between(current, update.blob)
        reason = file_operation.skip_reason(
            operation, update.mask, prune=prune, observed=tier != "sync"
        )
        if reason is SkipReason.PRUNE_RETAINED:
            retained.add(path)
        elif update.blob is not None:
            # Recreated in the same window.
            retained.discard(path)
        if operation is None or reason is not None:
            skipped.append((update.identity, reason or SkipReason.STATUS_ONLY))
            continue
        planned_blobs[path] = update.blob
        changes.append(_to_change(item, operation))
    planned = plan_separate_commits(changes, index) if separate else plan_commits(changes, index)
    capped = cap_commits(planned, files=limits.files, size_bytes=limits.size_bytes)
    return CommitPlan(capped, tuple(skipped), frozenset(retained))


def _to_change(item: AttributedUpdate, operation: Operation) -> PlannedChange:
    update, (author, tier, user, unresolved_reason) = item.update, item.signature
    return PlannedChange(
        path=update.path,
        identity=update.identity,
        blob=update.blob,
        size=update.size,
        author=author,
        tier=tier,
        user=user,
        received=update.received,
        op=operation,
        reason=update.reason,
        position=item.position,
        unresolved_reason=unresolved_reason,
    )
