"""Which files a list of patterns means.

`*`, `?` and `[...]` stay within one name, `**` stands for any number of directories, and a
match on a directory covers everything below it. A pattern without `/` speaks of the top
level only. Matching keeps the set of places in a pattern that the names so far can have
reached, so that its cost is bounded by path times pattern, whatever somebody writes.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass

_ANY_DEPTH = "**"


@dataclass(frozen=True, slots=True)
class Globs:
    """Compiled patterns; None in one of them is any number of directories."""

    patterns: tuple[tuple[re.Pattern[str] | None, ...], ...]

    def match(self, path: str) -> bool:
        """Whether one of the patterns names `path`, or a directory above it."""
        names = path.split("/")
        return any(_matches(pattern, names) for pattern in self.patterns)


def compiled(patterns: Sequence[str]) -> Globs:
    """Patterns as something to match with."""
    return Globs(tuple(_compiled(pattern) for pattern in patterns))


def _compiled(pattern: str) -> tuple[re.Pattern[str] | None, ...]:
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    # Translated by the standard library, a name is matched without backtracking over stars.
    return tuple(
        None if name == _ANY_DEPTH else re.compile(fnmatch.translate(name)) for name in names
    )


def _matches(pattern: Sequence[re.Pattern[str] | None], names: Sequence[str]) -> bool:
    reached = _skipping(pattern, {0})
    for name in names:
        onward = set()
        for at in reached - {len(pattern)}:
            part = pattern[at]
            if part is None:
                onward.add(at)
            elif part.match(name):
                onward.add(at + 1)
        reached = _skipping(pattern, onward)
        if onward and len(pattern) in reached:
            return True
    return False


def _skipping(pattern: Sequence[re.Pattern[str] | None], reached: set[int]) -> set[int]:
    """With the places behind a `**`, which may mean no directory at all."""
    for at in range(min(reached, default=len(pattern)), len(pattern)):
        if at in reached and pattern[at] is None:
            reached.add(at + 1)
    return reached
