"""Edits values in JSON text; every byte that is not part of the edit stays.

Key order, white space, number spelling, line ends, byte order mark and final newline are kept,
because only the bytes of a value, or of one member with its comma, are replaced. A new member or
element is formatted like its last sibling. `apply_edits` is equal to applying its edits one after
the other, but reads the text only once for all edits that are independent of each other.

Paths are written `.a.b[0].c`, `["a.b"]` for odd names, a final `[-]` to append. A parsed path is a
tuple: a string steps into an object, a number into an array. `.-` and `[-]` are the same step: the
position after the last element in an array, or a member of that name in an object.

Members are found by their name at any depth, or by a path. A name that occurs twice on a path is
refused: readers disagree on which one counts. Only the containers on a path are kept in memory; the
rest is validated and skipped.

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
from windlass.objects.names import format_count

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
    """The parsed path; raises ValueError for an invalid one."""
    if len(text) > MAX_PATH_LENGTH:
        raise ValueError(f"path has {len(text)} characters, the limit is {MAX_PATH_LENGTH}")
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise ValueError(f"invalid path {text!r} at character {at + 1}; use the form .a.b[0].c")
        steps.append(_parse_step(match))
        at = match.end()
    if not steps:
        raise ValueError("path must not be empty; use the form .a.b[0].c")
    if APPEND in steps[:-1]:
        raise ValueError(f"invalid path {text!r}: `-` is only allowed at the end")
    return tuple(steps)


def format_path(path: JsonPath) -> str:
    """`path` as text that `parse_path` accepts."""
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
    """A member or element; `start` is that of its name, if it has one."""

    step: str | int
    start: int
    name_end: int
    value: JsonToken


@dataclass(slots=True)
class JsonContainer:
    """An object or array on a requested path, with its children in order."""

    path: JsonPath
    kind: str
    start: int
    children: list[JsonChild] = field(default_factory=list)

    def child(self, data: bytes, step: str | int) -> JsonChild | None:
        """The child at `step`; raises `InvalidJson` if a name occurs twice."""
        matches = [child for child in self.children if child.step == step]
        if len(matches) > 1:
            raise invalid_json(data, matches[1].start, f"{step!r} occurs twice in one object")
        return matches[0] if matches else None


Containers: TypeAlias = dict[JsonPath, JsonContainer]


def encode_string(value: str) -> bytes:
    """`value` as a JSON string in UTF-8, with escapes if it has lone surrogates."""
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value).encode("ascii")


def is_same_value(left: bytes, right: bytes) -> bool:
    """Whether two encoded values are equal bytes, or strings of equal text."""
    if left == right:
        return True
    return left[:1] == right[:1] == b'"' and bool(json.loads(left) == json.loads(right))


def find_members(data: bytes, name: str, *, top_level: bool = False) -> tuple[JsonToken, ...]:
    """The values of all members called `name`; for an object or array its first bracket only."""
    # Without escapes the name is in the text as it is; this spares most files the tokenizer.
    if name.encode("utf-8", "replace") not in data and b"\\u" not in data:
        return ()
    values: list[JsonToken] = []
    has_name: list[bool] = []
    is_member = False
    for token in json_tokens.tokenize(data):
        if is_member and (not top_level or len(has_name) == 1):
            values.append(token)
        is_member = token.kind == NAME and decode_string(data, token) == name
        if is_member and has_name[-1]:
            raise invalid_json(data, token.start, f"{name!r} occurs twice in one object")
        if is_member:
            has_name[-1] = True
        elif token.kind in "{[":
            has_name.append(False)
        elif token.kind in "}]":
            has_name.pop()
    return tuple(values)


def find_values(data: bytes, paths: Iterable[JsonPath]) -> dict[JsonPath, JsonToken]:
    """The tokens of the values at `paths`, for those that exist."""
    requested = tuple(paths)
    containers = find_containers(data, requested)
    values: dict[JsonPath, JsonToken] = {}
    for path in requested:
        container = find_parent(data, containers, path)
        child = container.child(data, path[-1]) if container is not None else None
        if child is not None:
            values[path] = child.value
    return values


def apply_splices(data: bytes, splices: Iterable[Splice]) -> bytes:
    """`data` with each span (start, end) replaced; spans must not overlap."""
    pieces: list[bytes] = []
    copied = 0
    for start, end, raw in sorted(splices, key=lambda splice: splice[:2]):
        pieces += (data[copied:start], raw)
        copied = end
    return b"".join((*pieces, data[copied:]))


def find_containers(data: bytes, paths: Iterable[JsonPath]) -> Containers:
    """The existing objects and arrays on `paths`, by their own path."""
    walk = _ContainerWalk(data, {path[:depth] for path in paths for depth in range(len(path))})
    for token in json_tokens.tokenize(data):
        walk.feed(token)
    return walk.containers


def find_parent(data: bytes, containers: Containers, path: JsonPath) -> JsonContainer | None:
    """The container of `path`, or None; raises `InvalidJson` if a name on it occurs twice."""
    container = None
    for depth, step in enumerate(path):
        container = containers.get(path[:depth])
        if container is None:
            return None
        container.child(data, step)
    return container


class _ContainerWalk:
    """Consumes tokens and collects the containers whose path is requested."""

    def __init__(self, data: bytes, requested: set[JsonPath]) -> None:
        self.containers: Containers = {}
        self._data = data
        self._requested = requested
        # Name of the member whose value comes next; None in an array.
        self._name: JsonToken | None = None
        # Open brackets: container (None if not requested) and its entry in the parent.
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
        """Add a value to the innermost open container, if that is requested."""
        parent = self._open[-1][0] if self._open else None
        if parent is None:
            return None
        if self._name is None:
            child = JsonChild(len(parent.children), token.start, token.start, token)
        else:
            name = self._name
            child = JsonChild(decode_string(self._data, name), name.start, name.end, token)
        parent.children.append(child)
        return child

    def _enter(self, token: JsonToken, child: JsonChild | None) -> None:
        parent = self._open[-1][0] if self._open else None
        path = (*parent.path, child.step) if parent is not None and child is not None else ()
        container = None
        if path in self._requested and (child is not None or not self._open):
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
    """Write the JSON `raw` at `path`: replace the value, or add it to an existing container."""

    path: JsonPath
    raw: bytes


@dataclass(frozen=True, slots=True)
class RemoveValue:
    """Remove the member or element at `path`, if it exists."""

    path: JsonPath


JsonEdit: TypeAlias = SetValue | RemoveValue


def apply_edits(data: bytes, edits: Iterable[JsonEdit]) -> bytes:
    """`data` after all `edits` in order; raises `InvalidJson` if one is not possible."""
    for batch in _independent_batches(edits):
        containers = find_containers(data, [edit.path for edit in batch])
        splices: list[Splice] = []
        filled: set[JsonPath] = set()
        for edit in batch:
            if isinstance(edit, RemoveValue):
                splices += _removal_splices(data, containers, edit.path)
            else:
                splices += _set_splices(data, containers, edit, filled)
        data = apply_splices(data, splices)
    return data


def _independent_batches(edits: Iterable[JsonEdit]) -> Iterator[Sequence[JsonEdit]]:
    """The edits in order, split where one depends on an earlier one of its batch."""
    batch: list[JsonEdit] = []
    touched: set[JsonPath] = set()
    passed: set[JsonPath] = set()
    for edit in edits:
        # Appending and removing shift the siblings: they touch the whole container.
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


def _removal_splices(data: bytes, containers: Containers, path: JsonPath) -> list[Splice]:
    """The removal of a child with one comma: the next one, or for the last child the previous."""
    container = find_parent(data, containers, path)
    child = container.child(data, path[-1]) if container is not None else None
    if container is None or child is None:
        return []
    index = container.children.index(child)
    if index + 1 < len(container.children):
        return [(child.start, container.children[index + 1].start, b"")]
    start = container.children[index - 1].value.end if index else container.start + 1
    return [(start, child.value.end, b"")]


def _set_splices(
    data: bytes, containers: Containers, edit: SetValue, filled: set[JsonPath]
) -> list[Splice]:
    container = find_parent(data, containers, edit.path)
    if container is None:
        raise _missing_parent(data, containers, edit.path)
    child = container.child(data, edit.path[-1])
    if child is None:
        return [_addition_splice(data, container, edit, filled)]
    start, end = child.value.start, child.value.end
    return [] if is_same_value(data[start:end], edit.raw) else [(start, end, edit.raw)]


def _addition_splice(
    data: bytes, container: JsonContainer, edit: SetValue, filled: set[JsonPath]
) -> Splice:
    """The insertion of a child; `filled` are empty containers that this batch added one to."""
    named = _member_name(data, container, edit.path)
    if container.children:
        last = container.children[-1]
        before = (
            container.children[-2].value.end if len(container.children) > 1 else container.start + 1
        )
        gap = data[before : last.start].rpartition(b",")[2]
        colon = data[last.name_end : last.value.start]
        return last.value.end, last.value.end, b"," + gap + named + colon + edit.raw
    comma = b"," if container.path in filled else b""
    colon = b": " if named else b""
    filled.add(container.path)
    return container.start + 1, container.start + 1, comma + named + colon + edit.raw


def _member_name(data: bytes, container: JsonContainer, path: JsonPath) -> bytes:
    """The name to write for a new child, empty in an array."""
    step = path[-1]
    if container.kind == "{" and isinstance(step, str):
        return encode_string(step)
    if container.kind == "[" and step == APPEND:
        return b""
    if container.kind == "[" and isinstance(step, int):
        problem = (
            f"the array has {format_count(len(container.children), 'element')}; use `[-]` to append"
        )
    else:
        problem = (
            "elements of an array are addressed by number"
            if container.kind == "["
            else "it is an object"
        )
    raise invalid_json(data, container.start, f"{format_path(path)} cannot be set: {problem}")


def _missing_parent(data: bytes, containers: Containers, path: JsonPath) -> InvalidJson:
    missing = next(depth for depth in range(len(path)) if path[:depth] not in containers)
    at = containers[path[: missing - 1]].start if missing else 0
    what = format_path(path[:missing]) or "the file"
    message = f"{format_path(path)} cannot be set: {what} is not an object or array"
    return invalid_json(data, at, message)
