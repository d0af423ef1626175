"""Glob patterns by bash's rules, with globstar and dotglob.

`*`, `?` and `[...]` stay within one component; `**` as a whole component matches any number of
directories, elsewhere it is `*`; a backslash quotes the next character; a trailing `/` matches
directories only; a match on a directory covers everything below it; a pattern without `/`
matches at the top level only. There are no braces and no negation. Paths are relative,
without `.`, `..` or empty components.

One component (`Wildcard`) is split at its stars into runs of single characters. The first run is
anchored at the start of a name, the last at its end, those between match at the leftmost possible
position: no backtracking, so the cost is at most the product of both lengths. With dotglob a
leading dot is an ordinary character. A name too long for any file system does not match.

A whole pattern (`Glob`) is simulated as an automaton: the set of positions reached by the
components read so far bounds its cost by path times pattern. `GlobSet` caches the transitions:
paths that share directories share the work.

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
    """A bracket expression: ranges (a single character is a range), named classes, inverted."""

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
    """A compiled component: the `runs` between its stars, and its literal `head` and `tail`."""

    runs: tuple[Run, ...]
    head: str
    tail: str

    @property
    def literal(self) -> str | None:
        """The only name that matches; None if several could."""
        only = len(self.runs) == 1 and len(self.head) == len(self.runs[0])
        return self.head if only else None

    def matches(self, name: str) -> bool:
        # Most names fail here, before the slow part.
        edges_match = name.startswith(self.head) and name.endswith(self.tail)
        return edges_match and len(name) <= MAX_NAME_LENGTH and self._fits(name)

    def _fits(self, name: str) -> bool:
        first, last = self.runs[0], self.runs[-1]
        if len(self.runs) == 1:
            return len(name) == len(first) and _fits(first, name, 0)
        start, end = len(first), len(name) - len(last)
        if start > end or not _fits(first, name, 0) or not _fits(last, name, end):
            return False
        for run in self.runs[1:-1]:
            position = _leftmost_match(run, name, start, end)
            if position is None:
                return False
            start = position + len(run)
        return True


def _fits(run: Run, name: str, at: int) -> bool:
    return all(
        char == single if isinstance(single, str) else single.matches(char)
        for single, char in zip(run, name[at : at + len(run)], strict=True)
    )


def _leftmost_match(run: Run, name: str, start: int, end: int) -> int | None:
    positions = range(start, end - len(run) + 1)
    return next((position for position in positions if _fits(run, name, position)), None)


def compile_component(text: str) -> Wildcard:
    """The compiled `text`, which has no `/`; every text is valid."""
    runs: list[list[Single]] = [[]]
    at = 0
    while at < len(text):
        if text[at] == "*":
            runs.append([])
            at += 1
        else:
            single, at = _parse_single(text, at)
            runs[-1].append(single)
    tail = _literal_prefix(reversed(runs[-1]))[::-1]
    return Wildcard(tuple(map(tuple, runs)), _literal_prefix(runs[0]), tail)


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
    """The bracket expression at `at`; None if it is never closed: `[` is a literal then."""
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
    """The character or range at `at`; empty for a collating symbol of several characters."""
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
    """The name in `[:name:]` at `at`, with `mark` for the colon; None if there is none."""
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
    """Raise ValueError for an invalid `pattern`."""
    if not pattern:
        raise ValueError("pattern must not be empty")
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ValueError(
            f"pattern has {len(pattern)} characters, the limit is {MAX_PATTERN_LENGTH}"
        )
    if pattern.startswith("!"):
        raise ValueError(
            "pattern must not start with `!`: negation is not supported; use `\\!` for the "
            "character"
        )
    template.reject_template(pattern)
    if any(char < " " or char == "\x7f" for char in pattern):
        raise ValueError("pattern must not contain control characters; use `?` to match them")


@dataclass(frozen=True, slots=True)
class Glob:
    """A compiled pattern.

    `skips` has the positions that each position implies: itself, and the next one where a `**` may
    match no directory at all. `tail` is the position of a final `**`: it matches its parent too,
    but only if that is a directory.
    """

    pattern: str
    parts: tuple[Part, ...]
    skips: tuple[frozenset[int], ...]
    directories_only: bool
    tail: int | None

    def matches(self, path: str, *, is_dir: bool = False) -> bool:
        """Whether the pattern matches `path` itself; a match above it does not count."""
        reached = self.start()
        for name in path.split("/"):
            reached = self.step(reached, name)
        return self.accepts(reached, is_dir=is_dir)

    def start(self) -> frozenset[int]:
        return self.skips[0]

    def step(self, reached: Iterable[int], name: str) -> frozenset[int]:
        """The positions after one more component `name`, from the positions `reached`."""
        result: frozenset[int] = _NO_POSITIONS
        for at in reached:
            after = self._after(at, name)
            result = result | after if result else after
        return result

    def accepts(self, reached: frozenset[int], *, is_dir: bool) -> bool:
        """Whether a path that ends at the positions `reached` matches."""
        if is_dir and self.tail in reached:
            return True
        return len(self.parts) in reached and (is_dir or not self.directories_only)

    def _after(self, at: int, name: str) -> frozenset[int]:
        if at == len(self.parts):
            return _NO_POSITIONS
        part = self.parts[at]
        if part is None:
            return self.skips[at]
        matches = part == name if isinstance(part, str) else part.matches(name)
        return self.skips[at + 1] if matches else _NO_POSITIONS


def compile_glob(pattern: str) -> Glob:
    """The compiled `pattern`; raises ValueError like `check_pattern`."""
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
    """Patterns still possible after some components, and those that match a directory or file."""

    positions: Positions
    as_directory: tuple[int, ...]
    as_file: tuple[int, ...]
    children: dict[str, _MatchState] = field(default_factory=dict)


class GlobSet:
    """Ordered patterns; the first that matches a path or a directory above it covers the path."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(dict.fromkeys(patterns))
        self._globs = tuple(compile_glob(pattern) for pattern in self.patterns)
        self._reset_cache()

    def match(self, path: str, *, is_dir: bool = False) -> str | None:
        """The first pattern that covers `path`, or None."""
        index = min(self._covering(path, is_dir=is_dir), default=None)
        return None if index is None else self.patterns[index]

    def unused(self, paths: Iterable[str]) -> tuple[str, ...]:
        """The patterns that cover none of the files `paths`."""
        used = {covering for path in paths for covering in self._covering(path, is_dir=False)}
        return tuple(pattern for index, pattern in enumerate(self.patterns) if index not in used)

    def _covering(self, path: str, *, is_dir: bool) -> Iterator[int]:
        state = self._root
        *above, last = path.split("/")
        for name in above:
            state = self._child_state(state, name)
            yield from state.as_directory
        state = self._child_state(state, last)
        yield from state.as_directory if is_dir else state.as_file

    def _child_state(self, state: _MatchState, name: str) -> _MatchState:
        child = state.children.get(name)
        if child is not None:
            return child
        steps = ((index, self._globs[index].step(at, name)) for index, at in state.positions)
        reached = self._state_for(tuple((index, at) for index, at in steps if at))
        if self._cached >= _MAX_CACHED_STATES:
            self._reset_cache()
        self._cached += 1
        state.children[name] = reached
        return reached

    def _state_for(self, reached: Positions) -> _MatchState:
        state = self._states.get(reached)
        if state is None:
            state = _MatchState(
                reached, self._accepting(reached, True), self._accepting(reached, False)
            )
            self._states[reached] = state
        return state

    def _accepting(self, reached: Positions, is_dir: bool) -> tuple[int, ...]:
        return tuple(i for i, at in reached if self._globs[i].accepts(at, is_dir=is_dir))

    def _reset_cache(self) -> None:
        """Empty the cache: its size must not grow with the number of paths."""
        # Number of cached transitions.
        self._cached = 0
        # States by their positions: different paths share them.
        self._states: dict[Positions, _MatchState] = {}
        start = tuple((index, glob.start()) for index, glob in enumerate(self._globs))
        self._root = _MatchState(start, (), ())
