"""A window loses nothing and keeps the order of every object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies.batched import balanced_column, rows
from windlass.objects.names import GVR, Identity
from windlass.reverser import file_operation
from windlass.reverser.attribution.author import Author
from windlass.reverser.attribution.record_join import Tier, UnresolvedReason
from windlass.reverser.file_operation import Operation
from windlass.reverser.publish import commit_plan
from windlass.reverser.publish.commit_plan import PlannedChange, PlannedCommit
from windlass.reverser.publish.file_update import FileUpdate
from windlass.reverser.publish.folder import PendingWindow

START = datetime(2024, 5, 1, tzinfo=UTC)
PATHS = ("p", "q", "r")
BLOBS = balanced_column([None], ["1", "2", "3"])
indexes = rows(PATHS, ["1", "2", "3"], max_size=3, usual=1).map(dict)


def change(
    path: str, blob: str | None, user: str, tier: Tier, miss: UnresolvedReason, at: int
) -> PlannedChange:
    """The change of one path at one moment."""
    return PlannedChange(
        path,
        Identity(GVR("", "v1", "configmaps"), "ns", path),
        blob,
        len(blob or ""),
        Author(user, f"{user}@x.org"),
        tier,
        user,
        START + timedelta(seconds=at),
        "UPDATE",
        position=at,
        unresolved_reason=miss,
    )


TIERS: tuple[Tier, ...] = ("exact", "exact", "chain")
MISSES: tuple[UnresolvedReason, ...] = ("", "", "NoRecord")
windows = rows(PATHS, BLOBS, ["alice", "bob", "carol"], TIERS, MISSES, max_size=30, usual=8).map(
    lambda listed: [change(*row, at) for at, row in enumerate(listed)]
)


def replayed(index: Mapping[str, str], changes: Iterable[PlannedChange]) -> dict[str, str]:
    """The files after `changes`."""
    state = dict(index)
    for one in changes:
        if one.blob is None:
            state.pop(one.path, None)
        else:
            state[one.path] = one.blob
    return state


def flat(commits: Iterable[PlannedCommit]) -> list[PlannedChange]:
    """All changes in the order in which they are committed."""
    return [one for commit in commits for one in commit.changes]


@given(windows, indexes)
def test_commits_lead_to_the_same_files(
    changes: list[PlannedChange], index: dict[str, str]
) -> None:
    """CMT-3: nothing is lost, and nothing else is written."""
    planned = commit_plan.plan_commits(changes, index)
    assert replayed(index, flat(planned)) == replayed(index, changes)
    assert dict(commit_plan.overlay_index(index, changes)) == replayed(index, changes)


@given(windows, indexes)
def test_every_path_keeps_its_order(changes: list[PlannedChange], index: dict[str, str]) -> None:
    """CMT-3: changes of a path are committed in order, each step with its own author."""
    planned = flat(commit_plan.plan_commits(changes, index))
    for path in PATHS:
        came = [(one.received, one.blob, one.signature) for one in changes if one.path == path]
        committed = [(one.received, one.blob, one.signature) for one in planned if one.path == path]
        assert committed == [row for row in came if row in committed]
        assert all(one[2] != other[2] for one, other in pairwise(committed))


@given(windows, indexes)
def test_commits_are_real_and_of_one_signature(
    changes: list[PlannedChange], index: dict[str, str]
) -> None:
    """CMT-3, CMT-7: no empty commit, no mixed tiers, every operation matches the file."""
    state = dict(index)
    for commit in commit_plan.plan_commits(changes, index):
        assert commit.changes
        assert len({one.path for one in commit.changes}) == len(commit.changes)
        for one in commit.changes:
            assert one.signature == (
                commit.author,
                commit.tier,
                commit.user,
                commit.unresolved_reason,
            )
            assert one.op == file_operation.operation_between(state.get(one.path), one.blob)
        state = replayed(state, commit.changes)


@given(windows, indexes)
def test_commits_are_few(changes: list[PlannedChange], index: dict[str, str]) -> None:
    """CMT-3: neighbors differ in signature, and an unchanged path has no commit."""
    planned = commit_plan.plan_commits(changes, index)
    assert all(
        one.changes[0].signature != other.changes[0].signature for one, other in pairwise(planned)
    )
    after = replayed(index, changes)
    settled = {path for path in PATHS if index.get(path) == after.get(path)}
    assert not settled & {one.path for one in flat(planned)}


@given(rows(PATHS, BLOBS, max_size=30, usual=8), indexes)
def test_one_author_has_one_commit(
    listed: list[tuple[str, str | None]], index: dict[str, str]
) -> None:
    """CMT-3: the least number for one author is one, or none if nothing changed."""
    changes = [
        change(path, blob, "alice", "exact", "", at) for at, (path, blob) in enumerate(listed)
    ]
    planned = commit_plan.plan_commits(changes, index)
    assert len(planned) == int(replayed(index, changes) != index)


@given(windows, indexes, indexes)
def test_commits_move_to_another_tip(
    changes: list[PlannedChange], index: dict[str, str], tip: dict[str, str]
) -> None:
    """GIT-7: re-planned on a foreign tip the changed paths end as desired, the others stay."""
    planned = commit_plan.plan_commits(changes, index)
    again = commit_plan.replan_commits(planned, tip)
    assert replayed(tip, flat(again)) == replayed(tip, flat(planned))
    assert commit_plan.replan_commits(again, tip) == again


@given(windows, indexes, st.integers(0, 5))
def test_the_rest_of_a_window_leads_to_the_same_files(
    changes: list[PlannedChange], index: dict[str, str], landed: int
) -> None:
    """GIT-8: after a push of the first commits the rest is committed once, with the same end."""
    first = flat(commit_plan.plan_commits(changes, index)[:landed])
    window_left = PendingWindow([_arrival(one) for one in changes]).remaining_after(
        {one.path: one.position for one in first}
    )
    times = {one.received for one in window_left.updates}
    left = [one for one in changes if one.received in times]
    then = replayed(index, first)
    rest = flat(commit_plan.plan_commits(left, then))
    assert replayed(then, rest) == replayed(index, changes)
    for path in PATHS:
        committed = [one.received for one in (*first, *rest) if one.path == path]
        assert committed == sorted(set(committed))


def _arrival(one: PlannedChange) -> FileUpdate:
    mask = frozenset[Operation]()
    return FileUpdate(one.identity, "Kind", one.path, one.blob, None, mask, None, one.received)


@given(windows, indexes, st.integers(1, 3), st.integers(0, 3))
def test_commits_are_cut_at_their_ceilings(
    changes: list[PlannedChange], index: dict[str, str], files: int, size: int
) -> None:
    """No commit is too large, nothing is lost, and what fits together stays together."""
    planned = commit_plan.plan_commits(changes, index)
    cut = commit_plan.cap_commits(planned, files=files, size_bytes=size)
    assert flat(cut) == flat(planned)
    for commit in cut:
        assert len(commit.changes) <= files
        assert len(commit.changes) == 1 or sum(one.size for one in commit.changes) <= size
    for one, other in pairwise(cut):
        together = sum(each.size for each in (*one.changes, other.changes[0]))
        fits = len(one.changes) < files and together <= size
        assert not fits or one.changes[0].signature != other.changes[0].signature
