"""Glob patterns by bash's rules, with globstar and dotglob.

`*`, `?` and `[...]` stay within one component; `**` as a whole component stands for any
number of directories, elsewhere it is `*`; a backslash quotes the next character; a trailing
`/` asks for a directory; a match on a directory covers all below it; a pattern without `/`
matches at the top level only. There are no braces and no negation. Paths are relative,
without `.`, `..` or empty components.

One component (`Wildcard`) is cut at its stars into runs of single characters. The first run
is tied to the start of a name, the last to its end, those between go to the leftmost position
that fits: no backtracking, so the cost is at most the product of both lengths. With dotglob a
leading dot is a character like any other. A name too long for any file system matches nothing.

A whole pattern (`Glob`) keeps the set of positions that the components read so far can have
reached, so its cost is bounded by path times pattern. `GlobSet` caches how such sets follow
from each other: paths that share directories share the work.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeAlias

from windlass.gateways.render import template

MAX_NAME_LENGTH = 255

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

    def matches(self, char: str) -> bool:
        inside = any(low <= char <= high for low, high in self.ranges)
        return (inside or any(_CLASSES[name](char) for name in self.classes)) != self.inverted


Single: TypeAlias = str | Bracket
Run: TypeAlias = tuple[Single, ...]

_ANY_CHARACTER = Bracket(inverted=True)


@dataclass(frozen=True, slots=True)
class Wildcard:
    """A compiled component; `runs` stands between the stars, `head` and `foot` are sure text."""

    runs: tuple[Run, ...]
    head: str
    tail: str

    @property
    def literal(self) -> str | None:
        """The only name that matches, or None where several could."""
        only = len(self.runs) == 1 and len(self.head) == len(self.runs[0])
        return self.head if only else None

    def matches(self, name: str) -> bool:
        # Most names fail here, which spares the slow part for them.
        sure = name.startswith(self.head) and name.endswith(self.tail)
        return sure and len(name) <= MAX_NAME_LENGTH and self._fits(name)

    def _fits(self, name: str) -> bool:
        first, last = self.runs[0], self.runs[-1]
        if len(self.runs) == 1:
            return len(name) == len(first) and _fits(first, name, 0)
        start, end = len(first), len(name) - len(last)
        if start > end or not _fits(first, name, 0) or not _fits(last, name, end):
            return False
        for run in self.runs[1:-1]:
            place = _leftmost_match(run, name, start, end)
            if place is None:
                return False
            start = place + len(run)
        return True


def _fits(run: Run, name: str, at: int) -> bool:
    return all(
        char == single if isinstance(single, str) else single.matches(char)
        for single, char in zip(run, name[at : at + len(run)], strict=True)
    )


def _leftmost_match(run: Run, name: str, start: int, end: int) -> int | None:
    places = range(start, end - len(run) + 1)
    return next((place for place in places if _fits(run, name, place)), None)


def compile_component(text: str) -> Wildcard:
    """`text`, which has no `/`, as something to match names with; any text means something."""
    runs: list[list[Single]] = [[]]
    at = 0
    while at < len(text):
        if text[at] == "*":
            runs.append([])
            at += 1
        else:
            single, at = _parse_single(text, at)
            runs[-1].append(single)
    foot = _literal_prefix(reversed(runs[-1]))[::-1]
    return Wildcard(tuple(map(tuple, runs)), _literal_prefix(runs[0]), foot)


def _literal_prefix(run: Iterable[Single]) -> str:
    return "".join(map(str, takewhile(lambda single: isinstance(single, str), run)))


def _parse_single(text: str, at: int) -> tuple[Single, int]:
    if text[at] == "?":
        return _ANY_CHARACTER, at + 1
    if text[at] == "[":
        return _parse_bracket(text, at) or ("[", at + 1)
    return _parse_character(text, at)


def _parse_character(text: str, at: int) -> tuple[str, int]:
    """The character at `at`, or the one that a backslash there quotes."""
    if text[at] == "\\" and at + 1 < len(text):
        at += 1
    return text[at], at + 1


def _parse_bracket(text: str, at: int) -> tuple[Bracket, int] | None:
    """The set that opens at `at`; None where it never closes, for then `[` is only itself."""
    inverted = text[at + 1 : at + 2] in ("!", "^")
    at += 2 if inverted else 1
    ranges: list[tuple[str, str]] = []
    classes: list[str] = []
    first = at
    while at < len(text):
        if text[at] == "]" and at > first:
            return Bracket(tuple(ranges), tuple(classes), inverted), at + 1
        name = _parse_named(text, at, ":")
        if name is not None:
            classes += [name] if name in _CLASSES else []
            at += len(name) + 4
        else:
            element, at = _parse_range(text, at)
            ranges += element
    return None


def _parse_range(text: str, at: int) -> tuple[list[tuple[str, str]], int]:
    """The character or range at `at`; nothing for a symbol that stands for no character."""
    low, at = _parse_element(text, at)
    high = low
    if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in ("", "]"):
        high, at = _parse_element(text, at + 1)
    return ([(low, high)] if low and high else []), at


def _parse_element(text: str, at: int) -> tuple[str, int]:
    for mark in ".=":
        name = _parse_named(text, at, mark)
        if name is not None:
            return (name if len(name) == 1 else ""), at + len(name) + 4
    return _parse_character(text, at)


def _parse_named(text: str, at: int, mark: str) -> str | None:
    """What stands between `[:` and `:]` at `at`, or None where that is not what stands there."""
    if not text.startswith("[" + mark, at):
        return None
    end = text.find(mark + "]", at + 2)
    return None if end < 0 else text[at + 2 : end]


MAX_PATTERN_LENGTH = 1024

_MAX_CACHED_STATES = 65_536
_NO_POSITIONS: frozenset[int] = frozenset()
_ANY_NAME = compile_component("*")

Part: TypeAlias = str | Wildcard | None
"""One component: a literal name, a wildcard, or None for `**`."""


def check_pattern(pattern: str) -> None:
    """ValueError unless `pattern` may stand in a list of patterns."""
    if not pattern:
        raise ValueError("a pattern is empty; leave it out")
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ValueError(
            f"a pattern has {len(pattern)} characters, at most {MAX_PATTERN_LENGTH} are allowed"
        )
    if pattern.startswith("!"):
        raise ValueError("a pattern starts with `!`: negation is not offered, `\\!` is the letter")
    template.reject_template(pattern)
    if any(char < " " or char == "\x7f" for char in pattern):
        raise ValueError("a pattern holds a control character; take it out or write `?`")


@dataclass(frozen=True, slots=True)
class Glob:
    """A compiled pattern.

    `skips` says for each position which ones it stands for: itself, also the next where a
    `**` may mean no directory at all. `tail` is where a final `**` stands: it means its
    parent too, but only if that is a directory.
    """

    pattern: str
    parts: tuple[Part, ...]
    skips: tuple[frozenset[int], ...]
    directories_only: bool
    tail: int | None

    def matches(self, path: str, *, is_dir: bool = False) -> bool:
        """Whether the pattern names exactly `path`; what lies below a match is not asked."""
        reached = self.start()
        for name in path.split("/"):
            reached = self.step(reached, name)
        return self.accepts(reached, is_dir=is_dir)

    def start(self) -> frozenset[int]:
        return self.skips[0]

    def step(self, reached: Iterable[int], name: str) -> frozenset[int]:
        """Where one more component `name` leads from the positions `reached`."""
        result: frozenset[int] = _NO_POSITIONS
        for at in reached:
            after = self._after(at, name)
            result = result | after if result else after
        return result

    def accepts(self, reached: frozenset[int], *, is_dir: bool) -> bool:
        if is_dir and self.tail in reached:
            return True
        return len(self.parts) in reached and (is_dir or not self.directories_only)

    def _after(self, at: int, name: str) -> frozenset[int]:
        if at == len(self.parts):
            return _NO_POSITIONS
        part = self.parts[at]
        if part is None:
            return self.skips[at]
        fits = part == name if isinstance(part, str) else part.matches(name)
        return self.skips[at + 1] if fits else _NO_POSITIONS


def compile_glob(pattern: str) -> Glob:
    """`pattern` as something to match with; ValueError where `check_pattern` objects."""
    check_pattern(pattern)
    raw = pattern.split("/")
    directories_only = raw[-1] in ("", ".")
    names = [name for index, name in enumerate(raw) if index == 0 or name not in ("", ".")]
    parts = _compile_parts(names if names[0] != "." else names[1:])
    tail = len(parts) - 1 if parts and parts[-1] is None else None
    if tail is not None:
        parts.append(_ANY_NAME)
    skips = (
        frozenset((at, at + 1) if part is None else (at,)) for at, part in enumerate([*parts, ""])
    )
    return Glob(pattern, tuple(parts), tuple(skips), directories_only, tail)


def _compile_parts(names: Sequence[str]) -> list[Part]:
    parts: list[Part] = []
    for name in names:
        if name != "**":
            component = compile_component(name)
            literal = component.literal
            parts.append(component if literal is None else literal)
        elif not parts or parts[-1] is not None:
            parts.append(None)
    return parts


Positions: TypeAlias = tuple[tuple[int, frozenset[int]], ...]


@dataclass(slots=True, eq=False)
class _MatchState:
    """Patterns still possible after some components, and which match a directory or file here."""

    positions: Positions
    as_directory: tuple[int, ...]
    as_file: tuple[int, ...]
    children: dict[str, _MatchState] = field(default_factory=dict)


class GlobSet:
    """Patterns in order; a path belongs to the first that matches it or a directory above it."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(dict.fromkeys(patterns))
        self._globs = tuple(compile_glob(pattern) for pattern in self.patterns)
        self._reset_cache()

    def match(self, path: str, *, is_dir: bool = False) -> str | None:
        """The first pattern that covers `path`, or None."""
        found = min(self._covering(path, is_dir=is_dir), default=None)
        return None if found is None else self.patterns[found]

    def unused(self, paths: Iterable[str]) -> tuple[str, ...]:
        """The patterns that cover none of the files `paths`."""
        used = {found for path in paths for found in self._covering(path, is_dir=False)}
        return tuple(p for index, p in enumerate(self.patterns) if index not in used)

    def _covering(self, path: str, *, is_dir: bool) -> Iterator[int]:
        place = self._root
        *above, last = path.split("/")
        for name in above:
            place = self._child_state(place, name)
            yield from place.as_directory
        place = self._child_state(place, last)
        yield from place.as_directory if is_dir else place.as_file

    def _child_state(self, place: _MatchState, name: str) -> _MatchState:
        known = place.children.get(name)
        if known is not None:
            return known
        steps = ((index, self._globs[index].step(at, name)) for index, at in place.positions)
        reached = self._state_for(tuple((index, at) for index, at in steps if at))
        if self._cached >= _MAX_CACHED_STATES:
            self._reset_cache()
        self._cached += 1
        place.children[name] = reached
        return reached

    def _state_for(self, reached: Positions) -> _MatchState:
        place = self._states.get(reached)
        if place is None:
            place = _MatchState(
                reached, self._accepting(reached, True), self._accepting(reached, False)
            )
            self._states[reached] = place
        return place

    def _accepting(self, reached: Positions, is_dir: bool) -> tuple[int, ...]:
        return tuple(i for i, at in reached if self._globs[i].accepts(at, is_dir=is_dir))

    def _reset_cache(self) -> None:
        """Start anew: what is remembered must not grow with the number of paths asked for."""
        self._cached = 0
        self._states: dict[Positions, _MatchState] = {}
        start = tuple((index, glob.start()) for index, glob in enumerate(self._globs))
        self._root = _MatchState(start, (), ())
