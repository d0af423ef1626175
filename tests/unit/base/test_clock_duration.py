"""Durations parse exactly as the CRD patterns allow."""

from __future__ import annotations

import pytest

from windlass.base import clock


@pytest.mark.parametrize(
    ("text", "length"),
    [("0s", 0.0), ("250ms", 0.25), ("90s", 90.0), ("1h30m", 5400.0), ("1m1m", 120.0)],
)
def test_a_duration_is_the_sum_of_its_parts(text: str, length: float) -> None:
    """Each part counts by its unit."""
    assert clock.parse_duration(text) == length


@pytest.mark.parametrize("text", ["", "5", "-1s", "1y", "1.5h", "s", "1 s", "1s\n", "9" * 40 + "s"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    """The message shows a valid duration."""
    with pytest.raises(ValueError, match="use for example 90s"):
        clock.parse_duration(text)
