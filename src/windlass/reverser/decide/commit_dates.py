"""The two dates of a commit, in whole seconds since 1970.

The author date is when the newest of its events was received, the committer date is when
the commit was made. A clock that jumps back never makes a commit older than its parent.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommitDates:
    """Author and committer time."""

    authored: int
    committed: int


def commit_dates(newest_event: float, now: float, *, parent: int | None = None) -> CommitDates:
    """Dates for a commit made `now` on a parent committed at `parent`."""
    committed = int(now) if parent is None else max(int(now), parent)
    return CommitDates(authored=min(int(newest_event), committed), committed=committed)
