"""Changes values in JSON text; every byte that is not part of the change stays.

Key order, white space, number spelling, line ends, byte order mark and final newline are
kept, because only the bytes of a value, or of one member with its comma, are exchanged. A
new member or element is written the way its last neighbour is. `edited` gives the bytes
that its edits give one after the other, but reads the text only once for all edits that do
not touch each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from windlass.gateways.decide import json_path, json_spans
from windlass.gateways.decide.json_path import APPEND, Path
from windlass.gateways.decide.json_spans import Container, Containers, Splice
from windlass.gateways.decide.json_tokens import JsonRefused, refused


@dataclass(frozen=True, slots=True)
class Put:
    """Write `raw`, which is JSON, at `path`: over what is there, or into a parent that is there."""

    path: Path
    raw: bytes


@dataclass(frozen=True, slots=True)
class Remove:
    """Take the member or element at `path` out, if it is there."""

    path: Path


Edit: TypeAlias = Put | Remove


def edited(data: bytes, edits: Iterable[Edit]) -> bytes:
    """`data` after all `edits` in order; JsonRefused where one of them cannot be made."""
    for batch in _batches(edits):
        known = json_spans.containers(data, [edit.path for edit in batch])
        splices: list[Splice] = []
        filled: set[Path] = set()
        for edit in batch:
            if isinstance(edit, Remove):
                splices += _removal(data, known, edit.path)
            else:
                splices += _putting(data, known, edit, filled)
        data = json_spans.spliced(data, splices)
    return data


def _batches(edits: Iterable[Edit]) -> Iterator[Sequence[Edit]]:
    """Edits in order, cut where one touches what an earlier one of its batch may have changed."""
    batch: list[Edit] = []
    touched: set[Path] = set()
    passed: set[Path] = set()
    for edit in edits:
        # Adding to an array and removing shift the neighbours: they touch the whole parent.
        shifts = isinstance(edit, Remove) or edit.path[-1] == APPEND
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


def _removal(data: bytes, known: Containers, path: Path) -> list[Splice]:
    """Takes one comma along: the one behind, or for the last child the one before."""
    above = json_spans.parent(data, known, path)
    child = above.child(data, path[-1]) if above is not None else None
    if above is None or child is None:
        return []
    place = above.children.index(child)
    if place + 1 < len(above.children):
        return [(child.start, above.children[place + 1].start, b"")]
    start = above.children[place - 1].value.end if place else above.start + 1
    return [(start, child.value.end, b"")]


def _putting(data: bytes, known: Containers, edit: Put, filled: set[Path]) -> list[Splice]:
    above = json_spans.parent(data, known, edit.path)
    if above is None:
        raise _orphan(data, known, edit.path)
    child = above.child(data, edit.path[-1])
    if child is None:
        return [_addition(data, above, edit, filled)]
    start, end = child.value.start, child.value.end
    return [] if json_spans.same(data[start:end], edit.raw) else [(start, end, edit.raw)]


def _addition(data: bytes, above: Container, edit: Put, filled: set[Path]) -> Splice:
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


def _member_name(data: bytes, above: Container, path: Path) -> bytes:
    """The name to write for a new child, empty in an array."""
    step = path[-1]
    if above.kind == "{" and isinstance(step, str):
        return json_spans.text(step)
    if above.kind == "[" and step == APPEND:
        return b""
    if above.kind == "[" and isinstance(step, int):
        problem = f"the array has {len(above.children)} elements; `[-]` appends one"
    else:
        problem = "an array is stepped into by number" if above.kind == "[" else "it is an object"
    raise refused(data, above.start, f"{json_path.shown(path)} cannot be set: {problem}")


def _orphan(data: bytes, known: Containers, path: Path) -> JsonRefused:
    missing = next(depth for depth in range(len(path)) if path[:depth] not in known)
    at = known[path[: missing - 1]].start if missing else 0
    what = json_path.shown(path[:missing]) or "the file"
    message = f"{json_path.shown(path)} cannot be set: {what} is no object or array here"
    return refused(data, at, message)
