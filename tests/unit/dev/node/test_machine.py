"""Tests of which kernel settings are put back."""

from __future__ import annotations

import pytest

from windlass_dev.node import machine


@pytest.mark.parametrize(
    ("found", "now", "restored"),
    [
        ("1", "10", {"kernel/panic": "1"}),
        ("10", "10", {}),
        ("1", "30", {}),
        ("1", "1", {}),
    ],
)
def test_only_what_the_kubelet_changed_is_put_back(
    found: str, now: str, restored: dict[str, str]
) -> None:
    """A setting that somebody chose while a node was running is theirs."""
    assert machine.settings_to_restore({"kernel/panic": found}, {"kernel/panic": now}) == restored


def test_settings_that_are_gone_are_left_alone() -> None:
    """Not every kernel has every setting."""
    assert machine.settings_to_restore({"vm/unknown": "1"}, {}) == {}


@pytest.mark.parametrize(
    ("found", "now", "restored"), [("128", "1024", "128"), ("8192", "8192", ""), ("128", "512", "")]
)
def test_a_limit_that_was_raised_is_put_back(found: str, now: str, restored: str) -> None:
    """Unless it was high enough before, or somebody chose another one since."""
    (name,) = machine.MINIMUM_LIMITS
    expected = {name: restored} if restored else {}
    assert machine.settings_to_restore({name: found}, {name: now}) == expected
