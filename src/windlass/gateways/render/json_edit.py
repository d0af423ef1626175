"""Edits values in JSON text; every byte that is not part of the edit stays.

Key order, white space, number spelling, line ends, byte order mark and final newline are kept,
because only the bytes of a value, or of one member with its comma, are replaced. A new member or
element is written the way its last neighbor is. `apply_edits` gives the bytes that its edits give
one after the other, but reads the text only once for all edits that do not touch each other.

Paths are written `.a.b[0].c`, `["a.b"]` for odd names, a final `[-]` to append. A parsed path is a
tuple: text steps into an object, a number into an array. `.-` and `[-]` are the same step: the
position behind the last element in an array, or a member of that name in an object.

Members are found by their name at any depth, or by a path. A name that occurs twice on the way is
refused: readers disagree on which one counts. Only what lies on the way is kept in memory; the
rest is read past, though still checked.

Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from windlass.gateways.render import json_tokens
from windlass.gateways.render.json_tokens import NAME, InvalidJson, JsonToken, invalid_json

JsonPath: TypeAlias = tuple[str | int, ...]

APPEND = "-"
MAX_PATH_LENGTH = 1024

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]"\x00-\x1f]++)"""
    r"""|\[(?P<index>0|[1-9][0-9]{0,8})\]"""
    r"""|\[(?P<append>-)\]"""
    r"""|\["(?P<quoted>(?:[^"\\\x00-\x1f]|\\["\\])*+)"\]"""
)
_ESCAPE = re.compile(r'\\(["\\])')
_PLAIN_NAME = re.compile(r"""[^.\[\]"\x00-\x1f]++""")


def parse_path(text: str) -> JsonPath:
    """The path that `text` spells; ValueError where it spells none."""
    if len(text) > MAX_PATH_LENGTH:
        raise ValueError(
            f"the path has {len(text)} characters, at most {MAX_PATH_LENGTH} are allowed"
        )
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise ValueError(f"the path {text!r} is not like .a.b[0].c from character {at + 1} on")
        steps.append(_parse_step(match))
        at = match.end()
    if not steps:
        raise ValueError("the path is empty; write it like .a.b[0].c")
    if APPEND in steps[:-1]:
        raise ValueError(f"the path {text!r} appends before its end: `-` can only come last")
    return tuple(steps)


def format_path(path: JsonPath) -> str:
    """`path` as text that `parse_path` takes."""
    return "".join(_format_step(step) for step in path)


def _parse_step(match: re.Match[str]) -> str | int:
    if match["index"] is not None:
        return int(match["index"])
    if match["quoted"] is not None:
        return _ESCAPE.sub(r"\1", match["quoted"])
    return match["name"] or match["append"]


def _format_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if _PLAIN_NAME.fullmatch(step):
        return f".{step}"
    escaped = step.replace("\\", "\\\\").replace('"', '\\"')
    return f'["{escaped}"]'


Splice: TypeAlias = tuple[int, int, bytes]


@dataclass(slots=True)
class JsonChild:
    """A member or element; it starts at its name, where it has one."""

    step: str | int
    start: int
    name_end: int
    value: JsonToken


@dataclass(slots=True)
class JsonContainer:
    """An object or array on the way to something wanted, with its children in order."""

    path: JsonPath
    kind: str
    start: int
    children: list[JsonChild] = field(default_factory=list)

    def child(self, data: bytes, step: str | int) -> JsonChild | None:
        """The child at `step`; JsonRefused where a name occurs twice."""
        found = [child for child in self.children if child.step == step]
        if len(found) > 1:
            raise invalid_json(data, found[1].start, f"{step!r} occurs twice in one object")
        return found[0] if found else None


Containers: TypeAlias = dict[JsonPath, JsonContainer]


def encode_string(value: str) -> bytes:
    """`value` as a JSON string, in UTF-8 as far as that can spell it."""
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value).encode("ascii")


def is_same_value(one: bytes, other: bytes) -> bool:
    """Whether two spellings of a value are equal bytes, or strings of equal text."""
    if one == other:
        return True
    return one[:1] == other[:1] == b'"' and bool(json.loads(one) == json.loads(other))


def find_members(data: bytes, name: str, *, top_level: bool = False) -> tuple[JsonToken, ...]:
    """The values of all members called `name`; of an object or array only the first bracket."""
    if name.encode("utf-8", "replace") not in data and b"\\u" not in data:
        return ()
    found: list[JsonToken] = []
    seen: list[bool] = []
    wanted = False
    for token in json_tokens.tokenize(data):
        if wanted and (not top_level or len(seen) == 1):
            found.append(token)
        wanted = token.kind == NAME and decode_string(data, token) == name
        if wanted and seen[-1]:
            raise invalid_json(data, token.start, f"{name!r} occurs twice in one object")
        if wanted:
            seen[-1] = True
        elif token.kind in "{[":
            seen.append(False)
        elif token.kind in "}]":
            seen.pop()
    return tuple(found)


def find_values(data: bytes, paths: Iterable[JsonPath]) -> dict[JsonPath, JsonToken]:
    """Where the values at `paths` stand, for those that exist."""
    wanted = tuple(paths)
    known = find_containers(data, wanted)
    found: dict[JsonPath, JsonToken] = {}
    for path in wanted:
        above = find_parent(data, known, path)
        child = above.child(data, path[-1]) if above is not None else None
        if child is not None:
            found[path] = child.value
    return found


def apply_splices(data: bytes, splices: Iterable[Splice]) -> bytes:
    """`data` with each stretch (start, end) exchanged; stretches must not overlap."""
    out: list[bytes] = []
    done = 0
    for start, end, raw in sorted(splices, key=lambda splice: splice[:2]):
        out += (data[done:start], raw)
        done = end
    return b"".join((*out, data[done:]))


def find_containers(data: bytes, paths: Iterable[JsonPath]) -> Containers:
    """The objects and arrays that exist on the way to `paths`, by their own path."""
    walk = _ContainerWalk(data, {path[:depth] for path in paths for depth in range(len(path))})
    for token in json_tokens.tokenize(data):
        walk.feed(token)
    return walk.containers


def find_parent(data: bytes, known: Containers, path: JsonPath) -> JsonContainer | None:
    """What holds the value at `path`, or would; JsonRefused where the way there is ambiguous."""
    above = None
    for depth, step in enumerate(path):
        above = known.get(path[:depth])
        if above is None:
            return None
        above.child(data, step)
    return above


class _ContainerWalk:
    """Reads tokens and keeps those containers whose path is wanted."""

    def __init__(self, data: bytes, wanted: set[JsonPath]) -> None:
        self.containers: Containers = {}
        self._data = data
        self._wanted = wanted
        self._name: JsonToken | None = None
        self._open: list[tuple[JsonContainer | None, JsonChild | None]] = []

    def feed(self, token: JsonToken) -> None:
        if token.kind == NAME:
            self._name = token
        elif token.kind in "}]":
            self._close(token)
        else:
            child = self._add_child(token)
            self._name = None
            if token.kind in "{[":
                self._enter(token, child)

    def _add_child(self, token: JsonToken) -> JsonChild | None:
        """Note a value as a child of what is open, if that is wanted."""
        above = self._open[-1][0] if self._open else None
        if above is None:
            return None
        if self._name is None:
            child = JsonChild(len(above.children), token.start, token.start, token)
        else:
            name = self._name
            child = JsonChild(decode_string(self._data, name), name.start, name.end, token)
        above.children.append(child)
        return child

    def _enter(self, token: JsonToken, child: JsonChild | None) -> None:
        above = self._open[-1][0] if self._open else None
        path = (*above.path, child.step) if above is not None and child is not None else ()
        container = None
        if path in self._wanted and (child is not None or not self._open):
            container = JsonContainer(path, token.kind, token.start)
            self.containers.setdefault(path, container)
        self._open.append((container, child))

    def _close(self, token: JsonToken) -> None:
        _, child = self._open.pop()
        if child is not None:
            child.value = child.value._replace(end=token.end)


def decode_string(data: bytes, token: JsonToken) -> str:
    """The text of a member name or string at `token`."""
    raw = data[token.start : token.end]
    return str(json.loads(raw)) if b"\\" in raw else raw[1:-1].decode("utf-8")


@dataclass(frozen=True, slots=True)
class SetValue:
    """Write `raw`, which is JSON, at `path`: over what is there, or into a parent that is there."""

    path: JsonPath
    raw: bytes


@dataclass(frozen=True, slots=True)
class RemoveValue:
    """Take the member or element at `path` out, if it is there."""

    path: JsonPath


JsonEdit: TypeAlias = SetValue | RemoveValue


def apply_edits(data: bytes, edits: Iterable[JsonEdit]) -> bytes:
    """`data` after all `edits` in order; JsonRefused where one of them cannot be made."""
    for batch in _independent_batches(edits):
        known = find_containers(data, [edit.path for edit in batch])
        splices: list[Splice] = []
        filled: set[JsonPath] = set()
        for edit in batch:
            if isinstance(edit, RemoveValue):
                splices += _removal_splices(data, known, edit.path)
            else:
                splices += _set_splices(data, known, edit, filled)
        data = apply_splices(data, splices)
    return data


def _independent_batches(edits: Iterable[JsonEdit]) -> Iterator[Sequence[JsonEdit]]:
    """Edits in order, cut where one touches what an earlier one of its batch may have changed."""
    batch: list[JsonEdit] = []
    touched: set[JsonPath] = set()
    passed: set[JsonPath] = set()
    for edit in edits:
        # Adding to an array and removing shift the neighbours: they touch the whole parent.
        shifts = isinstance(edit, RemoveValue) or edit.path[-1] == APPEND
        path = edit.path[:-1] if shifts else edit.path
        above = {path[:depth] for depth in range(len(path) + 1)}
        if path in passed or above & touched:
            yield batch
            batch, touched, passed = [], set(), set()
        batch.append(edit)
        touched.add(path)
        passed |= above
    if batch:
        yield batch


def _removal_splices(data: bytes, known: Containers, path: JsonPath) -> list[Splice]:
    """Takes one comma along: the one behind, or for the last child the one before."""
    above = find_parent(data, known, path)
    child = above.child(data, path[-1]) if above is not None else None
    if above is None or child is None:
        return []
    place = above.children.index(child)
    if place + 1 < len(above.children):
        return [(child.start, above.children[place + 1].start, b"")]
    start = above.children[place - 1].value.end if place else above.start + 1
    return [(start, child.value.end, b"")]


def _set_splices(
    data: bytes, known: Containers, edit: SetValue, filled: set[JsonPath]
) -> list[Splice]:
    above = find_parent(data, known, edit.path)
    if above is None:
        raise _missing_parent(data, known, edit.path)
    child = above.child(data, edit.path[-1])
    if child is None:
        return [_addition_splice(data, above, edit, filled)]
    start, end = child.value.start, child.value.end
    return [] if is_same_value(data[start:end], edit.raw) else [(start, end, edit.raw)]


def _addition_splice(
    data: bytes, above: JsonContainer, edit: SetValue, filled: set[JsonPath]
) -> Splice:
    """`filled` are the containers without children that this batch already put one into."""
    named = _member_name(data, above, edit.path)
    if above.children:
        last = above.children[-1]
        before = above.children[-2].value.end if len(above.children) > 1 else above.start + 1
        gap = data[before : last.start].rpartition(b",")[2]
        colon = data[last.name_end : last.value.start]
        return last.value.end, last.value.end, b"," + gap + named + colon + edit.raw
    comma = b"," if above.path in filled else b""
    colon = b": " if named else b""
    filled.add(above.path)
    return above.start + 1, above.start + 1, comma + named + colon + edit.raw


def _member_name(data: bytes, above: JsonContainer, path: JsonPath) -> bytes:
    """The name to write for a new child, empty in an array."""
    step = path[-1]
    if above.kind == "{" and isinstance(step, str):
        return encode_string(step)
    if above.kind == "[" and step == APPEND:
        return b""
    if above.kind == "[" and isinstance(step, int):
        problem = f"the array has {len(above.children)} elements; `[-]` appends one"
    else:
        problem = "an array is stepped into by number" if above.kind == "[" else "it is an object"
    raise invalid_json(data, above.start, f"{format_path(path)} cannot be set: {problem}")


def _missing_parent(data: bytes, known: Containers, path: JsonPath) -> InvalidJson:
    missing = next(depth for depth in range(len(path)) if path[:depth] not in known)
    at = known[path[: missing - 1]].start if missing else 0
    what = format_path(path[:missing]) or "the file"
    message = f"{format_path(path)} cannot be set: {what} is no object or array here"
    return invalid_json(data, at, message)
