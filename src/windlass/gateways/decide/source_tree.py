"""The files of a commit, answering for directories too.

Git lists files only; a directory exists because a file lies in it. Lookups are binary
searches, so a mapping costs what it maps and not what the repository holds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from windlass.gateways.decide import paths
from windlass.gateways.decide.policing import ListedFile

Kind: TypeAlias = Literal["dir", "file", "absent"]

# The character after "/": every path in a directory sorts before the name with it.
_PAST_SLASH = "0"
_MOST_NAMED = 10


class SourceTree:
    """One commit's listing, by repository-relative path."""

    def __init__(self, listing: Mapping[str, ListedFile]) -> None:
        self.listing = listing
        self._paths = sorted(listing)

    def kind(self, path: str) -> Kind:
        if path in self.listing:
            return "file"
        start, end = self._span(path)
        return "dir" if start < end else "absent"

    def below(self, folder: str) -> Iterator[str]:
        """Every file in `folder`, in order, relative to it."""
        start, end = self._span(folder)
        cut = len(folder) + 1 if folder else 0
        for index in range(start, end):
            yield self._paths[index][cut:]

    def entries(self, folder: str) -> Iterator[str]:
        """The names directly in `folder`; those of directories end with a slash."""
        at, end = self._span(folder)
        cut = len(folder) + 1 if folder else 0
        while at < end:
            name, slash, _ = self._paths[at][cut:].partition("/")
            yield name + slash
            at = self._span(self._paths[at][:cut] + name)[1] if slash else at + 1

    def around(self, path: str) -> str:
        """What does exist where `path` was looked for, as a part of a sentence (MAP-4)."""
        folder = next((one for one in paths.parents(path) if self.kind(one) == "dir"), "")
        where = folder or "the top of the repository"
        return f"{where} has {listed(list(self.entries(folder))) or 'nothing'}"

    def _span(self, folder: str) -> tuple[int, int]:
        if not folder:
            return 0, len(self._paths)
        start = bisect_left(self._paths, f"{folder}/")
        return start, bisect_left(self._paths, folder + _PAST_SLASH, start)


def listed(names: Sequence[str]) -> str:
    """The first few names, for a message."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"
