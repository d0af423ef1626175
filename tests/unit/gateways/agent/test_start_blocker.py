"""When a gateway may start."""

from __future__ import annotations

import dataclasses

import pytest

from windlass.gateways.agent import decisions
from windlass.gateways.agent.decisions import StartFacts

WHOLE = StartFacts(is_volume_ready=True)


@pytest.mark.parametrize(
    ("changes", "may"),
    [
        ({}, False),
        ({"answers": True, "is_whole": False}, True),
        ({"is_whole": False, "holds": "tree", "waited_seconds": 99.0}, False),
        ({"is_whole": False, "is_stopped": True}, False),
        ({"is_stopped": True}, True),
        ({"holds": "tree"}, False),
        ({"holds": "tree", "was_tried": True}, False),
        ({"holds": "tree", "at_target": True}, True),
        ({"holds": "tree", "waited_seconds": 20.0}, True),
        ({"holds": "files"}, False),
        ({"holds": "files", "was_tried": True}, True),
        ({"holds": "files", "waited_seconds": 29.0}, False),
        ({"holds": "files", "waited_seconds": 30.0}, True),
        ({"waited_seconds": 9999.0}, False),
        ({"was_tried": True}, False),
        ({"starts_anyway": True}, False),
        ({"was_tried": True, "starts_anyway": True}, True),
        ({"at_target": True}, True),
    ],
)
def test_the_first_row_that_fits_decides(changes: dict[str, object], may: bool) -> None:
    """The table, row by row."""
    why = decisions.start_blocker(dataclasses.replace(WHOLE, **changes))  # type: ignore[arg-type]
    assert (why is None) is may
