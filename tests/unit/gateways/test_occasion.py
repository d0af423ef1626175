"""Why a gateway is synced."""

from __future__ import annotations

import dataclasses

import pytest

from windlass.gateways.decide.metadata import Metadata, Source
from windlass.gateways.decide.next_step import Facts, Version
from windlass.gateways.decide.occasion import Occasion, occasion
from windlass.gateways.decide.routing import Routing

OLD, NEW = "1" * 40, "2" * 40
TOLD = Metadata(Routing(), "r", Source(NEW, "main", "https://h/x.git"))
ASKED = dataclasses.replace(TOLD, trigger="again")


@pytest.mark.parametrize(
    ("facts", "ref", "is_starting", "why"),
    [
        (Facts(ASKED, on_disk=Version(OLD, "")), "main", True, "manual"),
        (Facts(TOLD), "", False, "start"),
        (Facts(TOLD, on_disk=Version(OLD, "")), "main", True, "start"),
        (Facts(TOLD, on_disk=Version(NEW, "other")), "main", False, "spec"),
        (Facts(TOLD, on_disk=Version(OLD, "")), "v1", False, "spec"),
        (Facts(TOLD, on_disk=Version(OLD, "")), "main", False, "poll"),
        (Facts(TOLD, on_disk=Version(NEW, ""), repairs=True), "main", False, "drift"),
    ],
)
def test_the_first_row_that_fits(facts: Facts, ref: str, is_starting: bool, why: Occasion) -> None:
    """The order of the table."""
    assert occasion(facts, ref=ref, is_starting=is_starting) == why
