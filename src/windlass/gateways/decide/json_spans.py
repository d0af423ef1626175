"""Finds where values stand in JSON text.

Members are found by their name at any depth, or by a path. A name that occurs twice on the
way is refused: readers disagree on which one counts. Only what lies on the way is kept in
memory; the rest is read past, though still checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from windlass.gateways.decide import json_tokens
from windlass.gateways.decide.json_path import Path
from windlass.gateways.decide.json_tokens import NAME, Token, refused

Splice: TypeAlias = tuple[int, int, bytes]


@dataclass(slots=True)
class Child:
    """A member or element; it starts at its name, where it has one."""

    step: str | int
    start: int
    name_end: int
    value: Token


@dataclass(slots=True)
class Container:
    """An object or array on the way to something wanted, with its children in order."""

    path: Path
    kind: str
    start: int
    children: list[Child] = field(default_factory=list)

    def child(self, data: bytes, step: str | int) -> Child | None:
        """The child at `step`; JsonRefused where a name occurs twice."""
        found = [child for child in self.children if child.step == step]
        if len(found) > 1:
            raise refused(data, found[1].start, f"{step!r} occurs twice in one object")
        return found[0] if found else None


Containers: TypeAlias = dict[Path, Container]


def text(value: str) -> bytes:
    """`value` as a JSON string, in UTF-8 as far as that can spell it."""
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value).encode("ascii")


def same(one: bytes, other: bytes) -> bool:
    """Whether two spellings of a value are equal bytes, or strings of equal text."""
    if one == other:
        return True
    return one[:1] == other[:1] == b'"' and bool(json.loads(one) == json.loads(other))


def member_spans(data: bytes, name: str, *, top_level: bool = False) -> tuple[Token, ...]:
    """The values of all members called `name`; of an object or array only the first bracket."""
    if name.encode("utf-8", "replace") not in data and b"\\u" not in data:
        return ()
    found: list[Token] = []
    seen: list[bool] = []
    wanted = False
    for token in json_tokens.tokens(data):
        if wanted and (not top_level or len(seen) == 1):
            found.append(token)
        wanted = token.kind == NAME and string(data, token) == name
        if wanted and seen[-1]:
            raise refused(data, token.start, f"{name!r} occurs twice in one object")
        if wanted:
            seen[-1] = True
        elif token.kind in "{[":
            seen.append(False)
        elif token.kind in "}]":
            seen.pop()
    return tuple(found)


def value_spans(data: bytes, paths: Iterable[Path]) -> dict[Path, Token]:
    """Where the values at `paths` stand, for those that exist."""
    wanted = tuple(paths)
    known = containers(data, wanted)
    found: dict[Path, Token] = {}
    for path in wanted:
        above = parent(data, known, path)
        child = above.child(data, path[-1]) if above is not None else None
        if child is not None:
            found[path] = child.value
    return found


def spliced(data: bytes, splices: Iterable[Splice]) -> bytes:
    """`data` with each stretch (start, end) exchanged; stretches must not overlap."""
    out: list[bytes] = []
    done = 0
    for start, end, raw in sorted(splices, key=lambda splice: splice[:2]):
        out += (data[done:start], raw)
        done = end
    return b"".join((*out, data[done:]))


def containers(data: bytes, paths: Iterable[Path]) -> Containers:
    """The objects and arrays that exist on the way to `paths`, by their own path."""
    walk = _Walk(data, {path[:depth] for path in paths for depth in range(len(path))})
    for token in json_tokens.tokens(data):
        walk.take(token)
    return walk.found


def parent(data: bytes, known: Containers, path: Path) -> Container | None:
    """What holds the value at `path`, or would; JsonRefused where the way there is ambiguous."""
    above = None
    for depth, step in enumerate(path):
        above = known.get(path[:depth])
        if above is None:
            return None
        above.child(data, step)
    return above


class _Walk:
    """Reads tokens and keeps those containers whose path is wanted."""

    def __init__(self, data: bytes, wanted: set[Path]) -> None:
        self.found: Containers = {}
        self._data = data
        self._wanted = wanted
        self._name: Token | None = None
        self._open: list[tuple[Container | None, Child | None]] = []

    def take(self, token: Token) -> None:
        if token.kind == NAME:
            self._name = token
        elif token.kind in "}]":
            self._close(token)
        else:
            child = self._adopt(token)
            self._name = None
            if token.kind in "{[":
                self._enter(token, child)

    def _adopt(self, token: Token) -> Child | None:
        """Note a value as a child of what is open, if that is wanted."""
        above = self._open[-1][0] if self._open else None
        if above is None:
            return None
        if self._name is None:
            child = Child(len(above.children), token.start, token.start, token)
        else:
            name = self._name
            child = Child(string(self._data, name), name.start, name.end, token)
        above.children.append(child)
        return child

    def _enter(self, token: Token, child: Child | None) -> None:
        above = self._open[-1][0] if self._open else None
        path = (*above.path, child.step) if above is not None and child is not None else ()
        container = None
        if path in self._wanted and (child is not None or not self._open):
            container = Container(path, token.kind, token.start)
            self.found.setdefault(path, container)
        self._open.append((container, child))

    def _close(self, token: Token) -> None:
        _, child = self._open.pop()
        if child is not None:
            child.value = child.value._replace(end=token.end)


def string(data: bytes, token: Token) -> str:
    """The text of a member name or string at `token`."""
    raw = data[token.start : token.end]
    return str(json.loads(raw)) if b"\\" in raw else raw[1:-1].decode("utf-8")
