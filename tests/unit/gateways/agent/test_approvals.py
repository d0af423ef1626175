"""What an annotation approves depends on when it was set, and on what was asked before."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.gateways.agent import approvals
from windlass.gateways.agent.approvals import DeleteApproval, DeleteRequest
from windlass.gateways.tree.deletes import DeleteAllowance

COMMIT, OTHER = "1" * 40, "2" * 40
APPROVAL = DeleteApproval(COMMIT, "r")
REQUEST = DeleteRequest(COMMIT, "r", ("a", "b"))


@pytest.mark.parametrize(
    ("known", "annotated", "expected"),
    [
        (None, {COMMIT}, DeleteApproval(COMMIT, "now")),
        (None, {OTHER}, None),
        (None, set(), None),
        (APPROVAL, {COMMIT}, APPROVAL),
        (APPROVAL, {COMMIT, OTHER}, APPROVAL),
        (APPROVAL, set(), None),
        (DeleteApproval(OTHER, "r"), {OTHER}, DeleteApproval(OTHER, "r")),
        (DeleteApproval(OTHER, "r"), {OTHER, COMMIT}, DeleteApproval(COMMIT, "now")),
        (DeleteApproval(OTHER, "r"), {COMMIT}, DeleteApproval(COMMIT, "now")),
    ],
)
def test_an_approval_stays_with_the_routing_under_which_it_was_first_seen(
    known: DeleteApproval | None, annotated: set[str], expected: DeleteApproval | None
) -> None:
    """Until the annotation no longer names its commit; the desired commit counts before others."""
    assert approvals.approval_in_force(known, annotated, COMMIT, "now") == expected


@pytest.mark.parametrize(
    ("request_", "files"),
    [
        (approvals.published(REQUEST), {"a", "b"}),
        (REQUEST, set()),
        (None, set()),
        (approvals.published(DeleteRequest(OTHER, "r", ("a",))), set()),
        (approvals.published(DeleteRequest(COMMIT, "other", ("a",))), set()),
    ],
)
def test_an_approval_covers_adopted_files_that_were_asked_about(
    request_: DeleteRequest | None, files: set[str]
) -> None:
    """For the same commit and routing; without an approval nothing is allowed."""
    allowed = approvals.allowance(APPROVAL, request_)
    assert allowed == DeleteAllowance(COMMIT, "r", frozenset(files))
    assert approvals.allowance(None, request_) is None
    assert approvals.is_granted(APPROVAL, request_) is bool(files)
    assert not approvals.is_granted(None, request_)


def test_a_question_counts_only_while_no_annotation_names_the_commit() -> None:
    """Until then its message says to remove the annotation first."""
    other = DeleteApproval(OTHER, "r")
    for approval in (None, other):
        assert approvals.needs_publication(approval, REQUEST)
        assert f'allow-mass-delete="{COMMIT}"' in approvals.message(approval, REQUEST)
    assert not approvals.needs_publication(APPROVAL, REQUEST)
    assert "set before this message" in approvals.message(APPROVAL, REQUEST)
    assert not approvals.needs_publication(None, approvals.published(REQUEST))
    for nothing in (None, DeleteRequest(COMMIT, "r")):
        assert not approvals.needs_publication(None, nothing)
        assert approvals.message(None, nothing) == ""


@dataclasses.dataclass
class _Gateway:
    """An agent's turns over a set of adopted files, with the times at which things happened."""

    commit: str = COMMIT
    routing_hash: str = "r"
    annotation: str = ""
    annotated_at: int = 0
    adopted: set[str] = dataclasses.field(default_factory=lambda: {"a"})
    approval: DeleteApproval | None = None
    request: DeleteRequest | None = None
    # When a file was named in a report, by commit, routing and file.
    reported: dict[tuple[str, str, str], int] = dataclasses.field(default_factory=dict)

    def turn(self, now: int) -> None:
        """Read the annotation, sync, publish; a restart in between changes nothing."""
        self.approval = approvals.approval_in_force(
            self.approval, {self.annotation} - {""}, self.commit, self.routing_hash
        )
        allowed = approvals.allowance(self.approval, self.request)
        if allowed is not None and allowed.covers(self.commit, self.routing_hash):
            assert allowed.adopted is not None
            for file in self.adopted & allowed.adopted:
                assert self.reported[self.commit, self.routing_hash, file] < self.annotated_at
            self.adopted -= allowed.adopted
        self.request = DeleteRequest(self.commit, self.routing_hash, tuple(sorted(self.adopted)))
        if approvals.needs_publication(self.approval, self.request):
            self.request = approvals.published(self.request)
        for file in self.request.files:
            self.reported.setdefault((self.commit, self.routing_hash, file), now)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["commit", "routing_hash", "annotation", "adopted"]),
            st.sampled_from([COMMIT, OTHER, ""]),
            st.booleans(),
        ),
        max_size=20,
    )
)
def test_an_adopted_file_is_deleted_only_if_it_was_reported_before_the_annotation_was_set(
    changes: list[tuple[str, str, bool]],
) -> None:
    """Whatever changes in whatever order, also several things between two turns."""
    gateway = _Gateway()
    for now, (field, value, is_turn) in enumerate(changes, start=1):
        if field == "annotation" and value != gateway.annotation:
            gateway.annotation, gateway.annotated_at = value, now
        elif field == "adopted":
            gateway.adopted.add(f"f{now}")
        elif field != "annotation":
            setattr(gateway, field, value or COMMIT)
        if is_turn:
            gateway.turn(now)


def test_a_question_that_is_answered_deletes_the_files_that_it_named() -> None:
    """One that came too late is asked again once the annotation is removed."""
    gateway = _Gateway()
    gateway.turn(1)
    gateway.annotation, gateway.annotated_at = COMMIT, 2
    gateway.adopted.add("later")
    gateway.turn(3)
    gateway.turn(4)
    assert gateway.adopted == {"later"}
    gateway.annotation = ""
    gateway.turn(5)
    gateway.annotation, gateway.annotated_at = COMMIT, 6
    gateway.turn(7)
    assert gateway.adopted == set()
