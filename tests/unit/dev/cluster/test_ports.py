"""The choice of ports."""

from __future__ import annotations

import random

import pytest

from windlass.base.errors import WindlassError
from windlass_dev.cluster import ports


def test_chooses_different_free_ports_below_the_ceiling() -> None:
    """Neither taken, nor busy, nor twice."""
    chosen = ports.choose_ports(
        8,
        taken=range(20_000, 20_010),
        ceiling=20_020,
        is_free=lambda port: port not in (20_010, 20_011),
        rng=random.Random(1),
    )
    assert sorted(chosen) == list(range(20_012, 20_020))


def test_too_few_ports_are_an_error() -> None:
    """No endless search."""
    with pytest.raises(WindlassError, match="fewer than 3 free ports"):
        ports.choose_ports(
            3, taken=(), ceiling=20_005, is_free=lambda _port: False, rng=random.Random(1)
        )
