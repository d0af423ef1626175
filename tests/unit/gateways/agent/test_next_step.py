"""What an agent does next."""

from __future__ import annotations

import dataclasses

import pytest

from windlass.gateways.agent import decisions
from windlass.gateways.agent.decisions import StepFacts, SyncVersion
from windlass.gateways.wire.metadata import AgentMetadata, CommitSource, Overrides
from windlass.gateways.wire.routing import Routing

OLD, NEW = "1" * 40, "2" * 40
TOLD = AgentMetadata(Routing(), "r", CommitSource(NEW, "main", "https://h/x.git"))
GOAL, BEFORE = SyncVersion(NEW, "p"), SyncVersion(OLD, "p")
SYNCED = StepFacts(TOLD, "site", "p", on_disk=GOAL)


def _kind(facts: StepFacts, **told: object) -> str:
    metadata = dataclasses.replace(TOLD, **told)  # type: ignore[arg-type]
    return decisions.next_step(dataclasses.replace(facts, metadata=metadata)).kind


def test_nothing_is_done_before_something_was_told() -> None:
    """Neither without metadata nor without a commit in it."""
    for metadata in (None, dataclasses.replace(TOLD, source=None)):
        step = decisions.next_step(StepFacts(metadata))
        assert (step.kind, step.status, step.reason) == (
            "hold",
            "Pending",
            "WaitingForController",
        )


def test_what_is_there_already_rests() -> None:
    """The wanted commit and routing are on the disk, and nothing is owed."""
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
        ({"scan_pending": True}, "scan"),
        ({"on_disk": BEFORE, "scan_pending": True}, "sync"),
        ({"dry_run": True}, "plan"),
        ({"dry_run": True, "planned_version": GOAL}, "rest"),
        ({"dry_run": True, "planned_version": BEFORE}, "plan"),
        ({"on_disk": BEFORE, "rolled_back_version": GOAL}, "hold"),
        ({"on_disk": BEFORE, "rolled_back_version": GOAL, "scan_pending": True}, "scan"),
        ({"on_disk": BEFORE, "rolled_back_version": BEFORE}, "sync"),
        ({"profile_paused": True, "on_disk": BEFORE}, "rest"),
    ],
)
def test_the_first_row_that_fits_decides(changes: dict[str, object], kind: str) -> None:
    """The table, row by row."""
    assert _kind(dataclasses.replace(SYNCED, **changes)) == kind  # type: ignore[arg-type]


@pytest.mark.parametrize("told", [{"paused": True}, {"terminating": True}])
def test_a_stop_comes_before_all_work(told: dict[str, object]) -> None:
    """Also before a rollback, a scan or a repair."""
    busy = dataclasses.replace(SYNCED, on_disk=BEFORE, scan_pending=True, repair_needed=True)
    assert _kind(busy, **told, overrides=Overrides(rollback="*"), trigger="x") == "rest"


def test_a_pause_without_data_says_so() -> None:
    """The gateway may start empty only because somebody said stop."""
    paused = dataclasses.replace(TOLD, paused=True, pause_reason="spec.paused is true")
    step = decisions.next_step(StepFacts(paused))
    assert (step.status, step.reason, step.message) == (
        "Paused",
        "PausedWithoutData",
        "spec.paused is true",
    )


def test_a_request_syncs_what_is_there_already() -> None:
    """Once: a request that was heeded is none any more."""
    assert _kind(SYNCED, trigger="new") == "sync"
    assert _kind(dataclasses.replace(SYNCED, trigger="new"), trigger="new") == "rest"


def test_a_request_ends_a_rollback() -> None:
    """Somebody wants the commit again."""
    held = dataclasses.replace(SYNCED, on_disk=BEFORE, rolled_back_version=GOAL)
    assert _kind(held, trigger="again") == "sync"


@pytest.mark.parametrize(
    ("asked", "heeded", "is_asked"),
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
def test_each_value_of_a_rollback_acts_once(asked: str, heeded: str, is_asked: bool) -> None:
    """It speaks of this gateway, or of all."""
    told = dataclasses.replace(TOLD, overrides=Overrides(rollback=asked))
    assert decisions.is_rollback_requested(told, "site", heeded) is is_asked
    facts = dataclasses.replace(SYNCED, metadata=told, rollback=heeded)
    assert (decisions.next_step(facts).kind == "rollback") is is_asked
