"""Edits of JSON text are edits of its value, and change no other byte."""

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
    """A value and one of its spellings: spacing, line endings, escapes, byte order mark."""
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
    text: tuple[Any, bytes], drawn: list[tuple[Any, ...]], raws: list[Any]
) -> tuple[Any, bytes, list[JsonEdit]]:
    """Edits at existing or earlier edited paths, inside and beside them, and anywhere."""
    paths = list(paths_of(text[0]))
    edits: list[JsonEdit] = []
    for number, (path, relation, index, is_set) in enumerate(drawn):
        existing = paths[index % len(paths)] if paths else path
        inside, sibling = (*existing, path[-1]), (*existing[:-1], path[-1])
        target = {"any": path, "there": existing, "inside": inside, "beside": sibling}[relation]
        paths.append(target)
        # The value is the item of that number, or all of them.
        raw = json.dumps(raws[number] if number < len(raws) else raws).encode()
        edits.append(SetValue(target, raw) if is_set else RemoveValue(target))
    return *text, edits


RELATIONS = ("any", "there", "inside", "beside")
EDITED = st.builds(
    _edits,
    spelled(),
    rows(balanced_column(*PATHS), RELATIONS, range(60), [True, False], max_size=5),
    LIST,
)


def parsed(data: bytes) -> Any:
    """The value as an independent parser reads it."""
    return json.loads(data.decode("utf-8-sig"))


def applied(value: Any, edit: JsonEdit) -> Any:
    """Apply the edit to the value itself; LookupError if it cannot be made."""
    *parents, last = edit.path
    container = value
    try:
        for step in parents:
            container = _step_into(container, step)
    except LookupError:
        if isinstance(edit, RemoveValue):
            return value
        raise
    if isinstance(edit, RemoveValue):
        if _has(container, last):
            del container[last]
        return value
    raw = json.loads(edit.raw)
    if isinstance(container, list) and last == "-":
        container.append(raw)
    elif _has(container, last) or (isinstance(container, dict) and isinstance(last, str)):
        container[last] = raw
    else:
        raise LookupError(last)
    return value


def _has(container: Any, step: str | int) -> bool:
    if isinstance(container, list):
        return isinstance(step, int) and step < len(container)
    return isinstance(container, dict) and step in container


def _step_into(container: Any, step: str | int) -> Any:
    if not _has(container, step):
        raise LookupError(step)
    return container[step]


@given(EDITED)
@settings(max_examples=400, deadline=None)
def test_editing_text_is_editing_the_value(edited: tuple[Any, bytes, list[JsonEdit]]) -> None:
    """Edit then parse equals parse then edit, and both refuse the same edits."""
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
def test_several_edits_equal_single_edits(edited: tuple[Any, bytes, list[JsonEdit]]) -> None:
    """Parsing the text once for several edits gives the same bytes."""
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
def test_bytes_outside_the_value_stay(text: tuple[Any, bytes], new: Any) -> None:
    """Setting any value replaces its bytes, and none before or after them."""
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
def test_adding_then_removing_restores_the_bytes(text: tuple[Any, bytes], number: int) -> None:
    """A new member leaves no trace when it is removed."""
    value, data = text
    absent = [name for name in ("new", *NAMES) if name not in value]
    name = absent[number % len(absent)]
    added = json_edit.apply_edits(data, [SetValue((name,), b"1")])
    assert added != data
    assert json_edit.apply_edits(added, [RemoveValue((name,))]) == data


def renamed(value: Any) -> Any:
    """The value with every systemName that is a string replaced."""
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
def test_setting_system_names_is_idempotent(text: tuple[Any, bytes]) -> None:
    """Every string member of that name changes, and normalizing twice equals normalizing once."""
    value, data = text
    edited = patching.set_system_name(data, "new", "AnyDepth")
    assert parsed(edited.content) == renamed(value)
    assert patching.set_system_name(edited.content, "new", "AnyDepth").content == edited.content


PIECES = ['"', "\\", "{", "}", "[", "]", ",", ":", "0", "1", "-", ".", "e", "true", "null", '"a"']
ALMOST = choices([*PIECES, " ", "\n", "\\u00e9", "é"]).map("".join)


@given(data=st.one_of(ALMOST.map(str.encode), st.binary(max_size=20)))
@example(data=b'"\\ud800\\u12"')
@example(data=b"[" * 3000)
@settings(max_examples=500, deadline=None)
def test_the_parser_is_total_and_strict(data: bytes) -> None:
    """Any bytes are JSON or refused; both checks and an independent parser agree on which."""
    try:
        # Not a word of JSON, though this reader takes them, and deeper than it can go.
        json.loads(data.decode("utf-8").removeprefix("\ufeff"), parse_constant=_refuse)
        is_valid = True
    except (ValueError, RecursionError):
        is_valid = False
    for parse in (json_tokens.check_json, lambda data: list(json_tokens.tokenize(data))):
        if is_valid:
            parse(data)
        else:
            with pytest.raises(InvalidJson):
                parse(data)


def _refuse(word: str) -> None:
    raise ValueError(word)


@given(text=spelled(st.one_of(OBJECT, LIST)), share=st.floats(0, 1, exclude_max=True))
@settings(max_examples=200, deadline=None)
def test_a_truncated_text_is_refused(text: tuple[Any, bytes], share: float) -> None:
    """The error has a line of the truncated text."""
    data = text[1]
    cut = int(share * len(data.rstrip()))
    with pytest.raises(InvalidJson) as caught:
        json_tokens.check_json(data[:cut])
    assert caught.value.line <= data[:cut].count(b"\n") + 1


def test_paths_survive_formatting() -> None:
    """A path in a message can be copied into a spec."""
    for path in chain(*PATHS):
        if "-" not in path[:-1]:
            assert json_edit.parse_path(json_edit.format_path(path)) == path
