r"""One component of a glob: `*`, `?`, `[...]`, and `\` before what is meant literally.

A component is cut at its stars into runs of single characters. The first run is tied to
the start of a name, the last to its end, those between go to the leftmost place that fits:
no backtracking, so the cost is at most the product of both lengths. Nothing here knows of
`/` or of dots: with bash's dotglob a leading dot is a character like any other. A name too
long for any file system matches nothing, whatever a repository may call its files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

LONGEST_NAME = 255

_CLASSES: dict[str, Callable[[str], bool]] = {
    "alnum": str.isalnum,
    "alpha": str.isalpha,
    "ascii": str.isascii,
    "blank": " \t".__contains__,
    "cntrl": lambda char: not char.isprintable() and not char.isspace(),
    "digit": "0123456789".__contains__,
    "graph": lambda char: char.isprintable() and not char.isspace(),
    "lower": str.islower,
    "print": str.isprintable,
    "punct": lambda char: char.isprintable() and not char.isspace() and not char.isalnum(),
    "space": str.isspace,
    "upper": str.isupper,
    "word": lambda char: char.isalnum() or char == "_",
    "xdigit": "0123456789abcdefABCDEF".__contains__,
}


@dataclass(frozen=True, slots=True)
class Bracket:
    """A set of characters: ranges (a single one is its own range), named classes, or the rest."""

    ranges: tuple[tuple[str, str], ...] = ()
    classes: tuple[str, ...] = ()
    inverted: bool = False

    def takes(self, char: str) -> bool:
        inside = any(low <= char <= high for low, high in self.ranges)
        return (inside or any(_CLASSES[name](char) for name in self.classes)) != self.inverted


Single: TypeAlias = str | Bracket
Run: TypeAlias = tuple[Single, ...]

_ANY = Bracket(inverted=True)


@dataclass(frozen=True, slots=True)
class Wildcard:
    """A compiled component; `runs` stands between the stars, `head` and `foot` are sure text."""

    runs: tuple[Run, ...]
    head: str
    foot: str

    @property
    def literal(self) -> str | None:
        """The only name that matches, or None where several could."""
        only = len(self.runs) == 1 and len(self.head) == len(self.runs[0])
        return self.head if only else None

    def matches(self, name: str) -> bool:
        # Most names fail here, which spares the slow part for them.
        sure = name.startswith(self.head) and name.endswith(self.foot)
        return sure and len(name) <= LONGEST_NAME and self._fits(name)

    def _fits(self, name: str) -> bool:
        first, last = self.runs[0], self.runs[-1]
        if len(self.runs) == 1:
            return len(name) == len(first) and _fits(first, name, 0)
        start, end = len(first), len(name) - len(last)
        if start > end or not _fits(first, name, 0) or not _fits(last, name, end):
            return False
        for run in self.runs[1:-1]:
            place = _leftmost(run, name, start, end)
            if place is None:
                return False
            start = place + len(run)
        return True


def _fits(run: Run, name: str, at: int) -> bool:
    return all(
        char == single if isinstance(single, str) else single.takes(char)
        for single, char in zip(run, name[at : at + len(run)], strict=True)
    )


def _leftmost(run: Run, name: str, start: int, end: int) -> int | None:
    places = range(start, end - len(run) + 1)
    return next((place for place in places if _fits(run, name, place)), None)


def compiled(text: str) -> Wildcard:
    """`text`, which has no `/`, as something to match names with; any text means something."""
    runs: list[list[Single]] = [[]]
    at = 0
    while at < len(text):
        if text[at] == "*":
            runs.append([])
            at += 1
        else:
            single, at = _single(text, at)
            runs[-1].append(single)
    foot = _sure(reversed(runs[-1]))[::-1]
    return Wildcard(tuple(map(tuple, runs)), _sure(runs[0]), foot)


def _sure(run: Iterable[Single]) -> str:
    return "".join(map(str, takewhile(lambda single: isinstance(single, str), run)))


def _single(text: str, at: int) -> tuple[Single, int]:
    if text[at] == "?":
        return _ANY, at + 1
    if text[at] == "[":
        return _bracket(text, at) or ("[", at + 1)
    return _character(text, at)


def _character(text: str, at: int) -> tuple[str, int]:
    """The character at `at`, or the one that a backslash there quotes."""
    if text[at] == "\\" and at + 1 < len(text):
        at += 1
    return text[at], at + 1


def _bracket(text: str, at: int) -> tuple[Bracket, int] | None:
    """The set that opens at `at`; None where it never closes, for then `[` is only itself."""
    inverted = text[at + 1 : at + 2] in ("!", "^")
    at += 2 if inverted else 1
    ranges: list[tuple[str, str]] = []
    classes: list[str] = []
    first = at
    while at < len(text):
        if text[at] == "]" and at > first:
            return Bracket(tuple(ranges), tuple(classes), inverted), at + 1
        name = _named(text, at, ":")
        if name is not None:
            classes += [name] if name in _CLASSES else []
            at += len(name) + 4
        else:
            element, at = _range(text, at)
            ranges += element
    return None


def _range(text: str, at: int) -> tuple[list[tuple[str, str]], int]:
    """The character or range at `at`; nothing for a symbol that stands for no character."""
    low, at = _element(text, at)
    high = low
    if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in ("", "]"):
        high, at = _element(text, at + 1)
    return ([(low, high)] if low and high else []), at


def _element(text: str, at: int) -> tuple[str, int]:
    for mark in ".=":
        name = _named(text, at, mark)
        if name is not None:
            return (name if len(name) == 1 else ""), at + len(name) + 4
    return _character(text, at)


def _named(text: str, at: int, mark: str) -> str | None:
    """What stands between `[:` and `:]` at `at`, or None where that is not what stands there."""
    if not text.startswith("[" + mark, at):
        return None
    end = text.find(mark + "]", at + 2)
    return None if end < 0 else text[at + 2 : end]
