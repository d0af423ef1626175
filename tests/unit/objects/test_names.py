"""Names as messages write them."""

from __future__ import annotations

import pytest

from windlass.objects.names import format_count


@pytest.mark.parametrize(
    ("number", "noun", "plural", "text"),
    [
        (0, "file", "", "0 files"),
        (1, "file", "", "1 file"),
        (2, "file", "", "2 files"),
        (1, "policy", "policies", "1 policy"),
        (3, "policy", "policies", "3 policies"),
    ],
)
def test_a_count_has_its_noun_in_the_right_number(
    number: int, noun: str, plural: str, text: str
) -> None:
    """One is singular, everything else is plural."""
    assert format_count(number, noun, plural) == text
