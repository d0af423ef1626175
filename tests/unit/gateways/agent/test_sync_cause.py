"""Why a gateway is synced."""

from __future__ import annotations

import dataclasses

import pytest

from windlass.gateways.agent.decisions import StepFacts, SyncCause, SyncVersion, sync_cause
from windlass.gateways.wire.metadata import AgentMetadata, CommitSource
from windlass.gateways.wire.routing import Routing

OLD, NEW = "1" * 40, "2" * 40
TOLD = AgentMetadata(Routing(), "r", CommitSource(NEW, "main", "https://h/x.git"))
ASKED = dataclasses.replace(TOLD, trigger="again")


@pytest.mark.parametrize(
    ("facts", "ref", "is_starting", "why"),
    [
        (StepFacts(ASKED, on_disk=SyncVersion(OLD, "")), "main", True, "manual"),
        (StepFacts(TOLD), "", False, "start"),
        (StepFacts(TOLD, on_disk=SyncVersion(OLD, "")), "main", True, "start"),
        (StepFacts(TOLD, on_disk=SyncVersion(NEW, "other")), "main", False, "spec"),
        (StepFacts(TOLD, on_disk=SyncVersion(OLD, "")), "v1", False, "spec"),
        (StepFacts(TOLD, on_disk=SyncVersion(OLD, "")), "main", False, "poll"),
        (StepFacts(TOLD, on_disk=SyncVersion(NEW, ""), repair_needed=True), "main", False, "drift"),
    ],
)
def test_the_first_row_that_fits(
    facts: StepFacts, ref: str, is_starting: bool, why: SyncCause
) -> None:
    """The order of the table."""
    assert sync_cause(facts, ref=ref, is_starting=is_starting) == why
