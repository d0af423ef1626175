"""Quantities are compared by value."""

from __future__ import annotations

from fractions import Fraction

import pytest

from windlass.objects import quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("500m", Fraction(1, 2)),
        ("2", 2),
        (2, 2),
        ("1.5", Fraction(3, 2)),
        ("1Gi", 1024**3),
        ("1E", 10**18),
        ("1e3", 1000),
        ("1E3", 1000),
        ("-1Ki", -1024),
        (".5", Fraction(1, 2)),
        ("100n", Fraction(1, 10**7)),
    ],
)
def test_texts_are_parsed_as_quantities(text: str | float, amount: Fraction | int) -> None:
    """Every suffix of Kubernetes is known."""
    assert quantity.parse(text) == amount


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1GiB", "0x10", "1e999999999", "٣", "1__0"])
def test_other_texts_are_refused(text: str) -> None:
    """What the API server would refuse is refused, in bounded time."""
    with pytest.raises(quantity.QuantityRefused):
        quantity.parse(text)


def test_equal_quantities_are_the_same() -> None:
    """The API server rewrites what it stores; that is not a difference."""
    assert quantity.same("1000m", "1")
    assert quantity.same("1024Mi", "1Gi")
    assert not quantity.same("1", "2")
    assert not quantity.same("one", "one")
