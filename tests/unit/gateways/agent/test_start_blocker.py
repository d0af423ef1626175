"""When a gateway may start."""

from __future__ import annotations

import dataclasses

import pytest

from windlass.gateways.agent import decisions
from windlass.gateways.agent.decisions import StartFacts

READY_VOLUME = StartFacts(is_volume_ready=True)


@pytest.mark.parametrize(
    ("changes", "may_start"),
    [
        ({}, False),
        ({"gateway_answers": True, "is_volume_ready": False}, True),
        ({"is_volume_ready": False, "volume_contents": "tree", "waited_seconds": 99.0}, False),
        ({"is_volume_ready": False, "is_paused": True}, False),
        ({"is_paused": True}, True),
        ({"volume_contents": "tree"}, False),
        ({"volume_contents": "tree", "has_tried_sync": True}, False),
        ({"volume_contents": "tree", "at_target": True}, True),
        ({"volume_contents": "tree", "waited_seconds": 20.0}, True),
        ({"volume_contents": "files"}, False),
        ({"volume_contents": "files", "has_tried_sync": True}, True),
        ({"volume_contents": "files", "waited_seconds": 29.0}, False),
        ({"volume_contents": "files", "waited_seconds": 30.0}, True),
        ({"waited_seconds": 9999.0}, False),
        ({"has_tried_sync": True}, False),
        ({"starts_anyway": True}, False),
        ({"has_tried_sync": True, "starts_anyway": True}, True),
        ({"at_target": True}, True),
    ],
)
def test_the_first_matching_row_decides(changes: dict[str, object], may_start: bool) -> None:
    """The decision table, row by row."""
    blocker = decisions.start_blocker(dataclasses.replace(READY_VOLUME, **changes))  # type: ignore[arg-type]
    assert (blocker is None) is may_start
