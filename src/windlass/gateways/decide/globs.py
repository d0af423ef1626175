"""Which paths a pattern means: bash's rules with globstar and dotglob.

`*`, `?` and `[...]` stay within one component; `**` as a whole component stands for any
number of directories, elsewhere it is `*`; a trailing `/` asks for a directory; a match on
a directory covers all below it; a pattern without `/` speaks of the top level only. There
are no braces and no negation. Paths are relative, without `.`, `..` or empty components.

Matching keeps the set of positions in the pattern that the components read so far can
have reached, so the cost is bounded by path times pattern. `Globs` remembers how such
sets follow from each other: paths that share directories share the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from windlass.gateways.decide import template, wildcard
from windlass.gateways.decide.wildcard import Wildcard

LONGEST = 1024

_REMEMBERED = 65_536
_NOWHERE: frozenset[int] = frozenset()
_ANY_NAME = wildcard.compiled("*")

Part: TypeAlias = str | Wildcard | None
"""One component: a literal name, a wildcard, or None for `**`."""


def check(pattern: str) -> None:
    """ValueError unless `pattern` may stand in a list of patterns."""
    if not pattern:
        raise ValueError("a pattern is empty; leave it out")
    if len(pattern) > LONGEST:
        raise ValueError(f"a pattern has {len(pattern)} characters, at most {LONGEST} are allowed")
    if pattern.startswith("!"):
        raise ValueError("a pattern starts with `!`: negation is not offered, `\\!` is the letter")
    template.refuse(pattern)
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
        result: frozenset[int] = _NOWHERE
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
            return _NOWHERE
        part = self.parts[at]
        if part is None:
            return self.skips[at]
        fits = part == name if isinstance(part, str) else part.matches(name)
        return self.skips[at + 1] if fits else _NOWHERE


def compiled(pattern: str) -> Glob:
    """`pattern` as something to match with; ValueError where `check` objects."""
    check(pattern)
    raw = pattern.split("/")
    directories_only = raw[-1] in ("", ".")
    names = [name for index, name in enumerate(raw) if index == 0 or name not in ("", ".")]
    parts = _parts(names if names[0] != "." else names[1:])
    tail = len(parts) - 1 if parts and parts[-1] is None else None
    if tail is not None:
        parts.append(_ANY_NAME)
    skips = (
        frozenset((at, at + 1) if part is None else (at,)) for at, part in enumerate([*parts, ""])
    )
    return Glob(pattern, tuple(parts), tuple(skips), directories_only, tail)


def _parts(names: Sequence[str]) -> list[Part]:
    parts: list[Part] = []
    for name in names:
        if name != "**":
            component = wildcard.compiled(name)
            literal = component.literal
            parts.append(component if literal is None else literal)
        elif not parts or parts[-1] is not None:
            parts.append(None)
    return parts


Reached: TypeAlias = tuple[tuple[int, frozenset[int]], ...]


@dataclass(slots=True, eq=False)
class _Place:
    """Patterns still possible after some components, and which match a directory or file here."""

    reached: Reached
    as_directory: tuple[int, ...]
    as_file: tuple[int, ...]
    below: dict[str, _Place] = field(default_factory=dict)


class Globs:
    """Patterns in order; a path belongs to the first that matches it or a directory above it."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(dict.fromkeys(patterns))
        self._globs = tuple(compiled(pattern) for pattern in self.patterns)
        self._forget()

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
            place = self._below(place, name)
            yield from place.as_directory
        place = self._below(place, last)
        yield from place.as_directory if is_dir else place.as_file

    def _below(self, place: _Place, name: str) -> _Place:
        known = place.below.get(name)
        if known is not None:
            return known
        steps = ((index, self._globs[index].step(at, name)) for index, at in place.reached)
        reached = self._place(tuple((index, at) for index, at in steps if at))
        if self._remembered >= _REMEMBERED:
            self._forget()
        self._remembered += 1
        place.below[name] = reached
        return reached

    def _place(self, reached: Reached) -> _Place:
        place = self._places.get(reached)
        if place is None:
            place = _Place(reached, self._accepting(reached, True), self._accepting(reached, False))
            self._places[reached] = place
        return place

    def _accepting(self, reached: Reached, is_dir: bool) -> tuple[int, ...]:
        return tuple(i for i, at in reached if self._globs[i].accepts(at, is_dir=is_dir))

    def _forget(self) -> None:
        """Start anew: what is remembered must not grow with the number of paths asked for."""
        self._remembered = 0
        self._places: dict[Reached, _Place] = {}
        start = tuple((index, glob.start()) for index, glob in enumerate(self._globs))
        self._root = _Place(start, (), ())
