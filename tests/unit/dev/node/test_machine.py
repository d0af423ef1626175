"""Which kernel settings are restored."""

from __future__ import annotations

import pytest

from windlass_dev.node import machine


@pytest.mark.parametrize(
    ("initial", "now", "restored"),
    [
        ("1", "10", {"kernel/panic": "1"}),
        ("10", "10", {}),
        ("1", "30", {}),
        ("1", "1", {}),
    ],
)
def test_only_settings_changed_by_the_kubelet_are_restored(
    initial: str, now: str, restored: dict[str, str]
) -> None:
    """A setting that a user changed while a node was running is kept."""
    assert machine.settings_to_restore({"kernel/panic": initial}, {"kernel/panic": now}) == restored


def test_missing_settings_are_skipped() -> None:
    """Not every kernel has every setting."""
    assert machine.settings_to_restore({"vm/unknown": "1"}, {}) == {}


@pytest.mark.parametrize(
    ("initial", "now", "restored"),
    [("128", "1024", "128"), ("8192", "8192", ""), ("128", "512", "")],
)
def test_a_raised_limit_is_restored(initial: str, now: str, restored: str) -> None:
    """Unless it was high enough before, or a user changed it since."""
    (name,) = machine.MINIMUM_LIMITS
    expected = {name: restored} if restored else {}
    assert machine.settings_to_restore({name: initial}, {name: now}) == expected
