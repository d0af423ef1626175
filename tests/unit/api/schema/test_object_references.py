"""Which pods a selector matches."""

from __future__ import annotations

import pytest

from windlass.api.schema.object_references import LabelOperator, LabelRequirement, LabelSelector

LABELS = {"app": "ignition", "site": "1"}


def test_an_empty_selector_matches_all() -> None:
    """An empty selector matches every pod."""
    assert LabelSelector().matches({})


def test_labels_must_be_equal() -> None:
    """Every label must have its value."""
    assert LabelSelector(match_labels={"app": "ignition", "site": "1"}).matches(LABELS)
    assert not LabelSelector(match_labels={"app": "ignition", "site": "2"}).matches(LABELS)
    assert not LabelSelector(match_labels={"zone": ""}).matches(LABELS)


@pytest.mark.parametrize(
    ("operator", "key", "values", "expected"),
    [
        ("In", "app", ("x", "ignition"), True),
        ("In", "app", ("x",), False),
        ("In", "zone", ("x",), False),
        ("NotIn", "app", ("x",), True),
        ("NotIn", "app", ("ignition",), False),
        ("NotIn", "zone", ("x",), True),
        ("Exists", "app", (), True),
        ("Exists", "zone", (), False),
        ("DoesNotExist", "app", (), False),
        ("DoesNotExist", "zone", (), True),
    ],
)
def test_expressions(
    operator: LabelOperator, key: str, values: tuple[str, ...], expected: bool
) -> None:
    """Each operator has its Kubernetes meaning."""
    demand = LabelRequirement(key=key, operator=operator, values=values)
    assert LabelSelector(match_expressions=(demand,)).matches(LABELS) is expected
