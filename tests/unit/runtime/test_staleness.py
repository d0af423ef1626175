"""Since when something may be missing."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.kube.follow import Interrupted
from windlass.runtime.staleness import Staleness


def current() -> Staleness:
    """A cache that had its first snapshot."""
    staleness = Staleness(80)
    staleness.complete()
    return staleness


def interrupted(reason: Any = "error", retry_seconds: float = 2.0) -> Interrupted:
    """An ending."""
    return Interrupted(reason, "m", retry_seconds)


def test_an_interruption_is_counted_from_its_first() -> None:
    """Failing again does not start anew."""
    staleness = current()
    staleness.interrupted(interrupted(), 10)
    staleness.interrupted(interrupted(), 20)
    assert staleness.since(25) == 10
    assert staleness.seconds(25) == 15


def test_a_clean_close_that_is_resumed_at_once_is_no_interruption() -> None:
    """Every stream ends sometimes; that alone misses nothing."""
    staleness = current()
    staleness.interrupted(interrupted("closed", 0), 10)
    assert staleness.since(11) is None


def test_a_change_ends_it() -> None:
    """An event on the resumed stream proves that it goes on where it ended."""
    staleness = current()
    staleness.interrupted(interrupted(), 10)
    staleness.moved()
    assert staleness.since(11) is None


def test_a_silent_stream_is_trusted_after_its_idle_time() -> None:
    """Where nothing happens, a resumed stream counts as good once it would have ended."""
    staleness = current()
    staleness.interrupted(interrupted(retry_seconds=5), 10)
    assert staleness.since(94.9) == 10
    assert staleness.since(95) is None


@pytest.mark.parametrize("why", ["expired", "first", "restarted"])
def test_where_a_snapshot_is_needed_only_it_helps(why: str) -> None:
    """Neither time nor a change make up for a past that is gone."""
    staleness = Staleness(80) if why == "first" else current()
    staleness.interrupted(interrupted("expired" if why == "expired" else "error"), 10)
    if why == "restarted":
        staleness.restarted()
    staleness.moved()
    assert staleness.since(1000) == 10
    staleness.complete()
    assert staleness.since(1000) is None
