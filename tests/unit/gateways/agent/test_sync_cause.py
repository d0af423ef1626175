"""Why a gateway is synced."""

from __future__ import annotations

import dataclasses

import pytest

from windlass.gateways.agent.decisions import StepFacts, SyncCause, SyncVersion, sync_cause
from windlass.gateways.wire.metadata import AgentMetadata, CommitSource
from windlass.gateways.wire.routing import Routing

OLD, NEW = "1" * 40, "2" * 40
METADATA = AgentMetadata(Routing(), "r", CommitSource(NEW, "main", "https://h/x.git"))
REQUESTED = dataclasses.replace(METADATA, trigger="again")


@pytest.mark.parametrize(
    ("facts", "ref", "is_starting", "cause"),
    [
        (StepFacts(REQUESTED, on_disk=SyncVersion(OLD, "")), "main", True, "manual"),
        (StepFacts(METADATA), "", False, "start"),
        (StepFacts(METADATA, on_disk=SyncVersion(OLD, "")), "main", True, "start"),
        (StepFacts(METADATA, on_disk=SyncVersion(NEW, "other")), "main", False, "spec"),
        (StepFacts(METADATA, on_disk=SyncVersion(OLD, "")), "v1", False, "spec"),
        (StepFacts(METADATA, on_disk=SyncVersion(OLD, "")), "main", False, "poll"),
        (
            StepFacts(METADATA, on_disk=SyncVersion(NEW, ""), repair_needed=True),
            "main",
            False,
            "drift",
        ),
    ],
)
def test_the_first_matching_row_decides(
    facts: StepFacts, ref: str, is_starting: bool, cause: SyncCause
) -> None:
    """In the order of the decision table."""
    assert sync_cause(facts, ref=ref, is_starting=is_starting) == cause
