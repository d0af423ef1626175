"""Which step an agent takes next."""

from __future__ import annotations

import dataclasses

import pytest

from windlass.gateways.agent import decisions
from windlass.gateways.agent.decisions import StepFacts, SyncVersion
from windlass.gateways.wire.metadata import AgentMetadata, CommitSource, Overrides
from windlass.gateways.wire.routing import Routing

OLD, NEW = "1" * 40, "2" * 40
METADATA = AgentMetadata(Routing(), "r", CommitSource(NEW, "main", "https://h/x.git"))
TARGET, BEFORE = SyncVersion(NEW, "p"), SyncVersion(OLD, "p")
SYNCED = StepFacts(METADATA, "site", "p", on_disk=TARGET)


def _kind(facts: StepFacts, **changes: object) -> str:
    changed = dataclasses.replace(METADATA, **changes)  # type: ignore[arg-type]
    return decisions.next_step(dataclasses.replace(facts, metadata=changed)).kind


def test_an_agent_holds_until_the_metadata_names_a_commit() -> None:
    """Both without metadata and without a commit in it."""
    for metadata in (None, dataclasses.replace(METADATA, source=None)):
        step = decisions.next_step(StepFacts(metadata))
        assert (step.kind, step.status, step.reason) == (
            "hold",
            "Pending",
            "WaitingForController",
        )


def test_a_synced_gateway_rests() -> None:
    """The desired commit and routing are on the disk, and no scan is pending."""
    step = decisions.next_step(SYNCED)
    assert (step.kind, step.status, step.reason) == ("rest", "Synced", "Synced")


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"on_disk": None}, "sync"),
        ({"on_disk": BEFORE}, "sync"),
        ({"on_disk": SyncVersion(NEW, "other")}, "sync"),
        ({"repair_needed": True}, "sync"),
        ({"deletes_allowed": True}, "sync"),
        ({"request_missing": True}, "sync"),
        ({"scan_pending": True}, "scan"),
        ({"on_disk": BEFORE, "scan_pending": True}, "sync"),
        ({"dry_run": True}, "plan"),
        ({"dry_run": True, "planned_version": TARGET}, "rest"),
        ({"dry_run": True, "planned_version": BEFORE}, "plan"),
        ({"on_disk": BEFORE, "rolled_back_version": TARGET}, "hold"),
        ({"on_disk": BEFORE, "rolled_back_version": TARGET, "scan_pending": True}, "scan"),
        ({"on_disk": BEFORE, "rolled_back_version": BEFORE}, "sync"),
        ({"profile_paused": True, "on_disk": BEFORE}, "rest"),
    ],
)
def test_the_first_matching_row_decides(changes: dict[str, object], kind: str) -> None:
    """The decision table, row by row."""
    assert _kind(dataclasses.replace(SYNCED, **changes)) == kind  # type: ignore[arg-type]


@pytest.mark.parametrize("changes", [{"paused": True}, {"terminating": True}])
def test_a_pause_or_deletion_precedes_all_work(changes: dict[str, object]) -> None:
    """Also a rollback, a scan or a repair."""
    busy = dataclasses.replace(SYNCED, on_disk=BEFORE, scan_pending=True, repair_needed=True)
    assert _kind(busy, **changes, overrides=Overrides(rollback="*"), trigger="x") == "rest"


def test_a_pause_without_data_has_its_own_reason() -> None:
    """Only an explicit pause lets a gateway start empty."""
    paused = dataclasses.replace(METADATA, paused=True, pause_reason="spec.paused is true")
    step = decisions.next_step(StepFacts(paused))
    assert (step.status, step.reason, step.message) == (
        "Paused",
        "PausedWithoutData",
        "spec.paused is true",
    )


def test_a_sync_request_syncs_a_synced_gateway_again() -> None:
    """Once: a request that was handled has no further effect."""
    assert _kind(SYNCED, trigger="new") == "sync"
    assert _kind(dataclasses.replace(SYNCED, trigger="new"), trigger="new") == "rest"


def test_a_sync_request_ends_a_rollback() -> None:
    """The rolled-back commit is desired again."""
    rolled_back = dataclasses.replace(SYNCED, on_disk=BEFORE, rolled_back_version=TARGET)
    assert _kind(rolled_back, trigger="again") == "sync"


@pytest.mark.parametrize(
    ("requested", "handled", "is_requested"),
    [
        ("", "", False),
        ("site", "", True),
        ("*", "", True),
        ("other", "", False),
        ("site", "site", False),
        ("site@2", "site", True),
        ("*@a", "*@a", False),
    ],
)
def test_each_rollback_value_acts_once(requested: str, handled: str, is_requested: bool) -> None:
    """It names this gateway, or all."""
    metadata = dataclasses.replace(METADATA, overrides=Overrides(rollback=requested))
    assert decisions.is_rollback_requested(metadata, "site", handled) is is_requested
    facts = dataclasses.replace(SYNCED, metadata=metadata, rollback=handled)
    assert (decisions.next_step(facts).kind == "rollback") is is_requested


@pytest.mark.parametrize(
    ("requested", "handled", "is_withdrawn"),
    [("", "", False), ("*", "", False), ("*", "*", False), ("", "*", True), ("other", "*", True)],
)
def test_a_handled_rollback_request_is_withdrawn_by_another_value_or_none(
    requested: str, handled: str, is_withdrawn: bool
) -> None:
    """While the annotation stays as it is, the request stays handled."""
    metadata = dataclasses.replace(METADATA, overrides=Overrides(rollback=requested))
    assert decisions.is_rollback_withdrawn(metadata, handled) is is_withdrawn
