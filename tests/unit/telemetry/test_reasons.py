"""The closed lists of reasons."""

from __future__ import annotations

import re

import pytest

from windlass.telemetry.reasons import EventReason, SkipReason


@pytest.mark.parametrize("reason", [*SkipReason, *EventReason])
def test_reasons_are_camel_case_of_their_name(reason: SkipReason | EventReason) -> None:
    """A reason has the same name in code, metrics and events."""
    assert reason.value == "".join(word.capitalize() for word in reason.name.split("_"))
    assert re.fullmatch(r"[A-Z][A-Za-z]+", reason)
