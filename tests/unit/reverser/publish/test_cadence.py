"""When windows close and pushes leave."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.reverser.publish import cadence
from windlass.reverser.publish.cadence import WindowLimits


def closes_at(**given: Any) -> float:
    """The close of a window opened at 100 with one small change."""
    settings: dict[str, Any] = {
        "opened": 100.0,
        "last_event": 100.0,
        "last_push_end": None,
        "push_average": None,
        "files": 1,
        "size_bytes": 100,
        "fixed_window": None,
        "limits": WindowLimits(),
    }
    return cadence.window_closes_at(**{**settings, **given})


@pytest.mark.parametrize("last_push_end", [None, 99.0, 3.0])
def test_first_change_after_an_idle_time_is_pushed_at_once(last_push_end: float | None) -> None:
    """CMT-1: 50 ms of quiet, 150 ms of age."""
    assert closes_at(last_push_end=last_push_end) == pytest.approx(100.05)
    assert closes_at(last_push_end=last_push_end, last_event=100.14) == pytest.approx(100.15)


@pytest.mark.parametrize(
    ("average", "quiet", "age"),
    [(None, 0.1, 0.5), (0.01, 0.1, 0.5), (0.2, 0.2, 0.8), (3.0, 0.5, 12.0), (60.0, 0.5, 20.0)],
)
def test_busy_windows_follow_the_remote(average: float | None, quiet: float, age: float) -> None:
    """CMT-1: quiet and age are the push time and four times it, within their bounds."""
    busy = {"last_push_end": 99.5, "push_average": average}
    assert closes_at(**busy) == pytest.approx(100.0 + quiet)
    late = 100.0 + age - 0.01
    assert closes_at(**busy, last_event=late) == pytest.approx(100.0 + age)


@pytest.mark.parametrize("full", [{"files": 200}, {"size_bytes": 1 << 20}])
def test_ceilings_close_at_the_last_event(full: dict[str, int]) -> None:
    """CMT-1: 200 files or 1 MiB close a window, fixed ones too."""
    assert closes_at(**full, last_event=100.02) == 100.02
    assert closes_at(**full, last_event=100.02, fixed_window=60.0) == 100.02


@pytest.mark.parametrize("seconds", [0.0, 2.0, 300.0])
def test_fixed_window_replaces_quiet_and_age(seconds: float) -> None:
    """2.2: commitWindow is fixed from its first event; 0s closes at once."""
    assert closes_at(fixed_window=seconds, last_event=100.0) == 100.0 + seconds


def test_wait_limit_bounds_the_age() -> None:
    """2.7: --git-batch-max-wait-sec is the ceiling of an adaptive window."""
    limits = WindowLimits(wait_seconds=1.0)
    closing_time = closes_at(limits=limits, last_push_end=99.9, push_average=9.0, last_event=100.9)
    assert closing_time == pytest.approx(101.0)


def test_average_moves_towards_the_newest_push() -> None:
    """CMT-1: the first push sets the average, later ones move it by less than half."""
    first = cadence.update_push_average(None, 1.0)
    second = cadence.update_push_average(first, 2.0)
    assert first == 1.0
    assert 1.0 < second < 1.5
