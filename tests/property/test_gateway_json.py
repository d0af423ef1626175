"""Edits of JSON text are edits of its value, and touch no byte besides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from itertools import chain, product
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.strategies.batched import (
    balanced_column,
    choices,
    lists_of_json,
    maps_of_json,
    row,
    rows,
    values_of_json,
)
from windlass.gateways.render import json_edit, json_tokens, patching
from windlass.gateways.render.json_edit import JsonEdit, JsonPath, RemoveValue, SetValue
from windlass.gateways.render.json_tokens import InvalidJson

NAMES = ["a", "b", "c", "é", "x.y", "-", "systemName", ""]
STRINGS = ["", "old", 'q"\\', "systemName", "😀", "\ud800"]
LEAVES = balanced_column([None], [False, True], range(-1000, 1001), STRINGS)
VALUE = values_of_json(LEAVES, NAMES, 24)
LIST = lists_of_json(LEAVES, NAMES, 24)
OBJECT = maps_of_json(LEAVES, NAMES, 24).map(lambda members: members or {"a": None})

STEPS = balanced_column(NAMES, range(3))
PATHS: list[list[JsonPath]] = [list(product(STEPS, repeat=count)) for count in (1, 2, 3)]


SPELLINGS = row(
    [True, False],
    [None, 2, "\t"],
    [(",", ":"), (", ", ": "), (" ,", " : ")],
    ["\n", "\r\n"],
    ["", "\ufeff", " \n"],
    ["", "\n"],
)


def _spelling(value: Any, spelling: tuple[Any, ...]) -> tuple[Any, bytes]:
    ascii_only, indent, separators, ends, head, tail = spelling
    plain = json.dumps(value, indent=indent, separators=separators)
    if not ascii_only and "\\ud800" not in plain:
        plain = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return value, (head + plain + tail).replace("\n", ends).encode()


def spelled(values: st.SearchStrategy[Any] = VALUE) -> st.SearchStrategy[tuple[Any, bytes]]:
    """A value and one of its many spellings: spacing, line ends, escapes, byte order mark."""
    return st.builds(_spelling, values, SPELLINGS)


def paths_of(value: Any, above: JsonPath = ()) -> Iterator[JsonPath]:
    """The paths of all values inside `value`."""
    if not isinstance(value, (dict, list)):
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for step, item in items:
        yield (*above, step)
        yield from paths_of(item, (*above, step))


def _edits(
    text: tuple[Any, bytes], places: list[tuple[Any, ...]], raws: list[Any]
) -> tuple[Any, bytes, list[JsonEdit]]:
    """Edits of what is there or was edited before, inside it, beside it, and anywhere."""
    known = list(paths_of(text[0]))
    edits: list[JsonEdit] = []
    for number, (path, how, place, puts) in enumerate(places):
        there = known[place % len(known)] if known else path
        inside, beside = (*there, path[-1]), (*there[:-1], path[-1])
        chosen = {"any": path, "there": there, "inside": inside, "beside": beside}[how]
        known.append(chosen)
        # The value is the item of that number, or all of them.
        raw = json.dumps(raws[number] if number < len(raws) else raws).encode()
        edits.append(SetValue(chosen, raw) if puts else RemoveValue(chosen))
    return *text, edits


HOW = ("any", "there", "inside", "beside")
EDITED = st.builds(
    _edits,
    spelled(),
    rows(balanced_column(*PATHS), HOW, range(60), [True, False], max_size=5),
    LIST,
)


def parsed(data: bytes) -> Any:
    """The value as an independent reader sees it."""
    return json.loads(data.decode("utf-8-sig"))


def applied(value: Any, edit: JsonEdit) -> Any:
    """The edit on the value itself; LookupError where it cannot be made."""
    *way, last = edit.path
    at = value
    try:
        for step in way:
            at = _stepped(at, step)
    except LookupError:
        if isinstance(edit, RemoveValue):
            return value
        raise
    if isinstance(edit, RemoveValue):
        if _has(at, last):
            del at[last]
        return value
    raw = json.loads(edit.raw)
    if isinstance(at, list) and last == "-":
        at.append(raw)
    elif _has(at, last) or (isinstance(at, dict) and isinstance(last, str)):
        at[last] = raw
    else:
        raise LookupError(last)
    return value


def _has(at: Any, step: str | int) -> bool:
    if isinstance(at, list):
        return isinstance(step, int) and step < len(at)
    return isinstance(at, dict) and step in at


def _stepped(at: Any, step: str | int) -> Any:
    if not _has(at, step):
        raise LookupError(step)
    return at[step]


@given(EDITED)
@settings(max_examples=400, deadline=None)
def test_editing_text_is_editing_the_value(edited: tuple[Any, bytes, list[JsonEdit]]) -> None:
    """Edit then parse equals parse then edit, and what one refuses the other does."""
    value, data, edits = deepcopy(edited)
    try:
        for edit in edits:
            value = applied(value, edit)
    except LookupError:
        with pytest.raises(InvalidJson):
            json_edit.apply_edits(data, edits)
    else:
        assert parsed(json_edit.apply_edits(data, edits)) == value


@given(EDITED)
@settings(max_examples=200, deadline=None)
def test_together_as_one_after_the_other(edited: tuple[Any, bytes, list[JsonEdit]]) -> None:
    """Reading the text once for several edits gives the very same bytes."""
    _, text, edits = edited
    data = text
    try:
        for edit in edits:
            data = json_edit.apply_edits(data, [edit])
    except InvalidJson:
        with pytest.raises(InvalidJson):
            json_edit.apply_edits(text, edits)
    else:
        assert json_edit.apply_edits(text, edits) == data


@given(text=spelled(st.one_of(OBJECT, LIST)), new=VALUE)
@settings(max_examples=200, deadline=None)
def test_bytes_outside_the_span_stay(text: tuple[Any, bytes], new: Any) -> None:
    """Replacing any value exchanges the bytes of its spelling, and none before or behind."""
    value, data = text
    raw = json.dumps(new).encode()
    paths = list(paths_of(value))
    spans = json_edit.find_values(data, paths)
    assert list(spans) == paths
    for path, span in spans.items():
        old = data[span.start : span.end]
        fresh = old if json_edit.is_same_value(old, raw) else raw
        expected = data[: span.start] + fresh + data[span.end :]
        assert json_edit.apply_edits(data, [SetValue(path, raw)]) == expected


@given(text=spelled(OBJECT), number=st.integers(0, len(NAMES)))
@settings(max_examples=150, deadline=None)
def test_adding_then_removing_gives_the_old_bytes(text: tuple[Any, bytes], number: int) -> None:
    """A new member leaves no trace when it is taken out again."""
    value, data = text
    absent = [name for name in ("new", *NAMES) if name not in value]
    name = absent[number % len(absent)]
    added = json_edit.apply_edits(data, [SetValue((name,), b"1")])
    assert added != data
    assert json_edit.apply_edits(added, [RemoveValue((name,))]) == data


def renamed(value: Any) -> Any:
    """The value with every systemName that is a text replaced."""
    if isinstance(value, list):
        return [renamed(item) for item in value]
    if isinstance(value, dict):
        return {
            name: "new" if name == "systemName" and isinstance(item, str) else renamed(item)
            for name, item in value.items()
        }
    return value


@pytest.mark.scenario("G29")
@given(text=spelled())
@settings(max_examples=200, deadline=None)
def test_system_names(text: tuple[Any, bytes]) -> None:
    """Every string member of that name changes, and normalising twice is normalising once."""
    value, data = text
    after = patching.set_system_name(data, "new", "AnyDepth")
    assert parsed(after.content) == renamed(value)
    assert patching.set_system_name(after.content, "new", "AnyDepth").content == after.content


PIECES = ['"', "\\", "{", "}", "[", "]", ",", ":", "0", "1", "-", ".", "e", "true", "null", '"a"']
ALMOST = choices([*PIECES, " ", "\n", "\\u00e9", "é"]).map("".join)


@given(data=st.one_of(ALMOST.map(str.encode), st.binary(max_size=20)))
@example(data=b'"\\ud800\\u12"')
@example(data=b"[" * 3000)
@settings(max_examples=500, deadline=None)
def test_the_reader_is_total_and_strict(data: bytes) -> None:
    """Any bytes are JSON or refused with a place; both checks and a known reader agree on which."""
    try:
        # Not a word of JSON, though this reader takes them, and deeper than it can go.
        json.loads(data.decode("utf-8").removeprefix("\ufeff"), parse_constant=_refuse)
        good = True
    except (ValueError, RecursionError):
        good = False
    for read in (json_tokens.check_json, lambda data: list(json_tokens.tokenize(data))):
        if good:
            read(data)
        else:
            with pytest.raises(InvalidJson):
                read(data)


def _refuse(word: str) -> None:
    raise ValueError(word)


@given(text=spelled(st.one_of(OBJECT, LIST)), share=st.floats(0, 1, exclude_max=True))
@settings(max_examples=200, deadline=None)
def test_a_text_cut_short_is_refused_with_its_end(text: tuple[Any, bytes], share: float) -> None:
    """Half a file never passes for a whole one."""
    data = text[1]
    cut = int(share * len(data.rstrip()))
    with pytest.raises(InvalidJson) as caught:
        json_tokens.check_json(data[:cut])
    assert caught.value.line <= data[:cut].count(b"\n") + 1


def test_paths_survive_being_shown() -> None:
    """A path that is printed in a message can be copied from there."""
    for path in chain(*PATHS):
        if "-" not in path[:-1]:
            assert json_edit.parse_path(json_edit.format_path(path)) == path
