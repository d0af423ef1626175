"""Closed windows become the right commits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from windlass.objects.names import GVR, Identity
from windlass.reverser.attribution.author import Author
from windlass.reverser.attribution.record_join import Tier
from windlass.reverser.publish.commit_plan import AttributedUpdate, build_commit_plan
from windlass.reverser.publish.file_update import FileUpdate
from windlass.reverser.selection.rules import operation_mask

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _update(
    name: str, blob: str | None, *, user: str = "alice", tier: Tier = "exact", only: str = ""
) -> AttributedUpdate:
    update = FileUpdate(
        identity=Identity(GVR("", "v1", "configmaps"), "ns", name),
        kind="ConfigMap",
        path=f"base/{name}.yaml",
        blob=blob,
        content=None,
        mask=operation_mask({only} if only else ()),
        observation=None,
        received=_NOW,
        size=1,
    )
    return AttributedUpdate(update, (Author(user, f"{user}@windlass.invalid"), tier, user, ""))


def test_the_operation_comes_from_the_git_transition() -> None:
    """Absent, different and unwanted files give CREATE, UPDATE and DELETE."""
    index = {"base/old.yaml": "1", "base/gone.yaml": "2"}
    plan = build_commit_plan(
        [_update("new", "3"), _update("old", "4"), _update("gone", None)], index
    )
    assert [change.op for change in plan.commits[0].changes] == ["CREATE", "UPDATE", "DELETE"]


def test_a_masked_transition_is_left_out_and_named() -> None:
    """With CREATE alone, an update after the create is not written."""
    plan = build_commit_plan(
        [_update("a", "1", only="CREATE"), _update("a", "2", only="CREATE")], {}
    )
    assert [change.blob for change in plan.commits[0].changes] == ["1"]
    assert [reason for _, reason in plan.skipped] == ["OperationMasked"]


@pytest.mark.scenario("A96")
def test_what_prune_keeps_is_named_by_path() -> None:
    """SNP-6: an inferred removal is retained, an observed one is done, in one window."""
    index = {"base/a.yaml": "1", "base/b.yaml": "1"}
    gone = [_update("a", None, tier="sync"), _update("b", None)]
    plan = build_commit_plan(gone, index, prune="OnEvent")
    assert plan.retained == {"base/a.yaml"}
    assert [change.path for commit in plan.commits for change in commit.changes] == ["base/b.yaml"]
    assert [reason for _, reason in plan.skipped] == ["PruneRetained"]


@pytest.mark.parametrize("blob", ["1", "2"])
def test_a_file_whose_object_is_recreated_is_not_retained(blob: str) -> None:
    """SNP-6: of one window the last event counts."""
    again = [_update("a", None), _update("a", blob)]
    plan = build_commit_plan(again, {"base/a.yaml": "1"}, prune="Never")
    assert plan.retained == frozenset()


def test_what_git_has_already_is_no_commit() -> None:
    """After a lost reply the same window plans to nothing."""
    plan = build_commit_plan([_update("a", "1")], {"base/a.yaml": "1"})
    assert plan.commits == ()


def test_deletion_and_equal_recreation_make_no_commit() -> None:
    """A net no-change in one window leaves no trace."""
    plan = build_commit_plan([_update("a", None), _update("a", "1")], {"base/a.yaml": "1"})
    assert plan.commits == ()


def test_two_authors_of_one_path_are_two_commits_in_order() -> None:
    """What bob did after alice is on top of what alice did."""
    plan = build_commit_plan([_update("a", "1"), _update("a", "2", user="bob")], {})
    assert [(commit.user, commit.changes[0].op) for commit in plan.commits] == [
        ("alice", "CREATE"),
        ("bob", "UPDATE"),
    ]
