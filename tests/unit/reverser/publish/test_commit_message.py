"""The text of commits, and their dates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.reverser.planned_change import planned_change
from windlass.objects.names import GVR, Identity
from windlass.reverser.file_operation import Operation
from windlass.reverser.publish import commit_message
from windlass.reverser.publish.commit_message import Trailers
from windlass.reverser.publish.commit_plan import CommitDates, PlannedChange, choose_dates

TRAILERS = Trailers("uid-1", "windlass-system", "windlass", "pod-1", "team/prod", "alice", "exact")
LAST = """\
X-ConfigButler-ClusterUID: uid-1
X-ConfigButler-ControllerNS: windlass-system
X-ConfigButler-ControllerName: windlass
X-ConfigButler-InstanceID: pod-1
X-ConfigButler-Destination: team/prod
X-ConfigButler-User: alice
X-ConfigButler-Attribution: exact
"""


def change(
    op: Operation, name: str, resource: str = "configmaps", group: str = ""
) -> PlannedChange:
    """One file of a commit."""
    identity = Identity(GVR(group, "v1", resource), "shop", name)
    return planned_change(op, identity, f"base/{name}.yaml")


@pytest.mark.scenario("A31")
def test_one_file() -> None:
    """The whole message of the smallest commit."""
    text = commit_message.render_message([change("CREATE", "settings")], TRAILERS)
    assert text == f"[CREATE] v1/configmaps/settings by user/alice\n\n{LAST}"


@pytest.mark.scenario("A32")
@pytest.mark.parametrize("op", ["UPDATE", "DELETE"])
def test_the_operation_begins_the_subject(op: Operation) -> None:
    """The group is part of the identifier, the namespace is not."""
    text = commit_message.render_message([change(op, "store", "deployments", "apps")], TRAILERS)
    assert text.startswith(f"[{op}] apps/v1/deployments/store by user/alice\n")


def test_batch_counts_the_three_top_resources() -> None:
    """Most first, names break ties, and each file has its line."""
    changes = [
        change("CREATE", "a", "secrets"),
        change("UPDATE", "b"),
        change("DELETE", "c"),
        change("CREATE", "d", "roles"),
        change("CREATE", "e", "services"),
    ]
    first, body, last = commit_message.render_message(changes, TRAILERS).split("\n\n")
    assert first == "[BATCH] 5 objects (2 configmaps, 1 roles, 1 secrets) by user/alice"
    assert body.split("\n")[:2] == ["CREATE base/a.yaml", "UPDATE base/b.yaml"]
    assert last == LAST


def test_long_batches_list_fifty_files() -> None:
    """The rest is counted."""
    changes = [change("CREATE", f"n{number}") for number in range(60)]
    rows = commit_message.render_message(changes, TRAILERS).split("\n\n")[1].split("\n")
    assert len(rows) == 51
    assert rows[-1] == "and 10 more"


def test_a_snapshot_gives_its_balance() -> None:
    """CMT-4: how many files were added, changed and removed, and where; without a user."""
    changes = [change("CREATE", "a"), change("UPDATE", "b"), change("CREATE", "c")]
    unresolved = Trailers("u", "n", "c", "i", "a/b", "", "sync")
    text = commit_message.render_message(
        changes, unresolved, kind="sync", base_folder="clusters/prod"
    )
    assert text.startswith("[SYNC] 3 objects (+2 ~1 -0) in clusters/prod\n\n")
    assert "X-ConfigButler-User: (none)\nX-ConfigButler-Attribution: sync\n" in text


def test_a_removal_without_a_deletion_names_its_reason() -> None:
    """Even a single one is listed under its reason, and never as a deletion."""
    gone = replace(change("DELETE", "a"), reason="leader election record")
    first, why, body, _ = commit_message.render_message([gone], TRAILERS, kind="sync").split("\n\n")
    assert first.startswith("[SYNC] 1 object (+0 ~0 -1)")
    assert why == "1 object no longer mirrored: leader election record"
    assert body == "REMOVE base/a.yaml"
    both = [gone, replace(gone, path="base/b.yaml"), change("CREATE", "c")]
    _, why, body, _ = commit_message.render_message(both, TRAILERS, kind="sync").split("\n\n")
    assert why == "2 objects no longer mirrored: leader election record"
    assert body.split("\n") == ["REMOVE base/a.yaml", "REMOVE base/b.yaml", "CREATE base/c.yaml"]


@pytest.mark.scenario("A66")
def test_names_cannot_break_the_subject() -> None:
    """A line end in an object's name does not start a new line."""
    text = commit_message.render_message([change("CREATE", "x\n\nX-Evil: 1")], TRAILERS)
    assert text.startswith("[CREATE] v1/configmaps/xX-Evil: 1 by user/alice\n\nX-ConfigButler-")


def test_unresolved_user() -> None:
    """Without a user the subject says so."""
    unresolved = Trailers("u", "n", "c", "i", "a/b", "", "unresolved")
    text = commit_message.render_message([change("UPDATE", "a")], unresolved)
    assert text.startswith("[UPDATE] v1/configmaps/a by user/(unresolved)\n")
    assert "X-ConfigButler-Unresolved" not in text


def test_the_reason_for_a_missing_author_is_the_last_trailer() -> None:
    """0.8: a commit without an author says which reason that has."""
    unresolved = Trailers("u", "n", "c", "i", "a/b", "", "unresolved", "NamespaceNotCovered")
    text = commit_message.render_message([change("UPDATE", "a")], unresolved)
    assert text.endswith("\nX-ConfigButler-Unresolved: NamespaceNotCovered\n")


@pytest.mark.parametrize(
    ("event", "now", "parent", "dates"),
    [
        (100.9, 101.2, None, CommitDates(100, 101)),
        (100.0, 101.0, 90, CommitDates(100, 101)),
        (100.0, 101.0, 500, CommitDates(100, 500)),
        (900.0, 101.0, 90, CommitDates(101, 101)),
    ],
)
def test_dates_never_run_backwards(
    event: float, now: float, parent: int | None, dates: CommitDates
) -> None:
    """A clock that jumped back, or an event from the future, does not show in history."""
    assert choose_dates(event, now, parent=parent) == dates
