"""How the changes of a window become commits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from windlass.objects.names import GVR, Identity
from windlass.reverser.attribution.author import Author
from windlass.reverser.attribution.record_join import Tier
from windlass.reverser.publish import commit_plan
from windlass.reverser.publish.commit_plan import PlannedChange, PlannedCommit

START = datetime(2024, 5, 1, tzinfo=UTC)
CONFIGMAPS = GVR("", "v1", "configmaps")


def change(
    user: str, path: str, blob: str | None, *, at: int = 0, tier: Tier = "exact"
) -> PlannedChange:
    """A change of one path by one user; no user means a sync."""
    return PlannedChange(
        path=path,
        identity=Identity(CONFIGMAPS, "ns", path),
        blob=blob,
        size=len(blob or ""),
        author=Author(user or "windlass", f"{user or 'bot'}@x.org"),
        tier=tier,
        user=user,
        received=START + timedelta(seconds=at),
        op="UPDATE",
    )


def summary(commits: tuple[PlannedCommit, ...]) -> list[tuple[str, list[tuple[str, str]]]]:
    """User, operations and paths of each commit."""
    return [(commit.user, [(file.op, file.path) for file in commit.changes]) for commit in commits]


def test_one_author_makes_one_commit() -> None:
    """CMT-3: one commit per author."""
    planned = commit_plan.plan_commits(
        [change("alice", "p", "1"), change("alice", "q", "1")], {"q": "0"}
    )
    assert summary(planned) == [("alice", [("CREATE", "p"), ("UPDATE", "q")])]


def test_without_a_window_each_event_is_a_commit() -> None:
    """2.2: commitWindow 0s; what a snapshot found stays together, and no path is twice in it."""
    sync = [change("", path, blob, tier="sync") for path, blob in (("s", "1"), ("t", "1"))]
    again = change("", "s", "2", tier="sync")
    events = [change("alice", "p", "1"), change("alice", "p", "2"), change("alice", "q", "1")]
    planned = commit_plan.plan_separate_commits(
        [*sync, again, *events, change("", "u", "1", tier="sync")], {}
    )
    assert [[(one.path, one.blob) for one in commit.changes] for commit in planned] == [
        [("t", "1"), ("s", "2")],
        [("p", "1")],
        [("p", "2")],
        [("q", "1")],
        [("u", "1")],
    ]


def test_interleaved_authors_make_two_commits() -> None:
    """CMT-3: a change joins the latest commit of its author."""
    planned = commit_plan.plan_commits(
        [change("alice", "p", "1"), change("bob", "q", "1"), change("alice", "r", "1")], {}
    )
    assert summary(planned) == [
        ("alice", [("CREATE", "p"), ("CREATE", "r")]),
        ("bob", [("CREATE", "q")]),
    ]


def test_changes_of_one_path_by_two_authors_are_separate_commits() -> None:
    """CMT-3: per-object order is kept, so alternating authors make alternating commits."""
    changes = [change(user, "p", str(at)) for at, user in enumerate(("alice", "bob", "alice"))]
    planned = commit_plan.plan_commits(changes, {})
    assert summary(planned) == [
        ("alice", [("CREATE", "p")]),
        ("bob", [("UPDATE", "p")]),
        ("alice", [("UPDATE", "p")]),
    ]


def test_later_touch_opens_a_commit_which_others_join() -> None:
    """CMT-3: once alice had to open a second commit, her next changes join that one."""
    planned = commit_plan.plan_commits(
        [
            change("alice", "p", "1"),
            change("bob", "p", "2"),
            change("alice", "p", "3"),
            change("alice", "q", "1"),
        ],
        {},
    )
    assert [commit.user for commit in planned] == ["alice", "bob", "alice"]
    assert [file.path for file in planned[2].changes] == ["p", "q"]


def test_consecutive_changes_collapse_to_the_last() -> None:
    """CMT-3: create, update, update by one author is one create of the last content."""
    planned = commit_plan.plan_commits(
        [change("alice", "p", blob, at=at) for at, blob in enumerate("123")], {}
    )
    assert summary(planned) == [("alice", [("CREATE", "p")])]
    assert planned[0].changes[0].blob == "3"
    assert planned[0].received == START + timedelta(seconds=2)


def test_collapsed_changes_take_the_position_of_the_last() -> None:
    """CMT-3: an early change that was overwritten holds no commit open."""
    planned = commit_plan.plan_commits(
        [
            change("alice", "p", "1"),
            change("bob", "q", "1"),
            change("alice", "q", "2"),
            change("alice", "p", "2"),
        ],
        {},
    )
    assert [commit.user for commit in planned] == ["bob", "alice"]


@pytest.mark.scenario("A36")
def test_delete_and_equal_recreation_make_no_commit() -> None:
    """CMT-3: net no-change makes no commit, by one author or by two."""
    gone, back = change("alice", "p", None), change("alice", "p", "1")
    assert commit_plan.plan_commits([gone, back], {"p": "1"}) == ()
    assert commit_plan.plan_commits([gone, change("bob", "p", "1")], {"p": "1"}) == ()


def test_object_created_and_deleted_in_one_window_makes_no_commit() -> None:
    """CMT-3: there is no net change."""
    assert commit_plan.plan_commits([change("alice", "p", "1"), change("bob", "p", None)], {}) == ()


def test_delete_and_other_recreation_is_an_update() -> None:
    """RUL-7: the operation is the transition of the file over the whole commit."""
    planned = commit_plan.plan_commits(
        [change("alice", "p", None), change("alice", "p", "2")], {"p": "1"}
    )
    assert summary(planned) == [("alice", [("UPDATE", "p")])]


def test_writing_equal_content_is_no_change() -> None:
    """P11: the second writer of the same bytes has no commit and does not split the others."""
    planned = commit_plan.plan_commits(
        [change("alice", "p", "1"), change("bob", "p", "1"), change("alice", "p", "2")], {}
    )
    assert summary(planned) == [("alice", [("CREATE", "p")])]


def test_tiers_are_not_mixed() -> None:
    """CMT-7: the trailer states one tier, so one user may have two commits."""
    planned = commit_plan.plan_commits(
        [change("alice", "p", "1"), change("alice", "q", "1", tier="chain")], {}
    )
    assert [(commit.user, commit.tier) for commit in planned] == [
        ("alice", "exact"),
        ("alice", "chain"),
    ]


def test_sync_changes_have_a_commit_of_their_own() -> None:
    """ATT-9: what a snapshot found has no actor."""
    planned = commit_plan.plan_commits(
        [
            change("", "p", "1", tier="sync"),
            change("alice", "q", "1"),
            change("", "r", "1", tier="sync"),
        ],
        {},
    )
    assert [(commit.user, len(commit.changes)) for commit in planned] == [("", 2), ("alice", 1)]


def test_replanning_drops_changes_that_the_new_tip_has() -> None:
    """GIT-7: a foreign commit that did the same leaves nothing to do, the rest is kept."""
    planned = commit_plan.plan_commits([change("alice", "p", "1"), change("bob", "q", "1")], {})
    again = commit_plan.replan_commits(planned, {"p": "1", "q": "0"})
    assert summary(again) == [("bob", [("UPDATE", "q")])]
    assert again[0].received == planned[1].received
    assert commit_plan.replan_commits(planned, {"p": "1", "q": "1"}) == ()


def test_overlay_shows_the_state_to_come() -> None:
    """RUL-7: the next event of a path is compared with what waits for it."""
    index = {"p": "1", "q": "1"}
    state = commit_plan.overlay_index(
        index, [change("alice", "p", None), change("alice", "r", "1")]
    )
    assert dict(state) == {"q": "1", "r": "1"}
    assert len(state) == 2
    assert state.get("p") is None
    assert index == {"p": "1", "q": "1"}
