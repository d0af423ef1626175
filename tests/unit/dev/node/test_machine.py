"""Tests of which kernel settings are put back."""

from __future__ import annotations

import pytest

from windlass.dev.node import machine


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
    assert machine.to_restore({"kernel/panic": found}, {"kernel/panic": now}) == restored


def test_settings_that_are_gone_are_left_alone() -> None:
    """Not every kernel has every setting."""
    assert machine.to_restore({"vm/unknown": "1"}, {}) == {}
