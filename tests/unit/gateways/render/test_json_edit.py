"""Edits that leave every other byte unchanged, by example."""

from __future__ import annotations

import pytest

from windlass.gateways.render import json_edit
from windlass.gateways.render.json_edit import RemoveValue, SetValue
from windlass.gateways.render.json_tokens import InvalidJson

SAMPLE = (
    b'\xef\xbb\xbf{\r\n\t"n" : 1.0e5,\r\n\t"o": {"x":  [ 1,2 ], "e": {}},\r\n'
    b'\t"s": "\\u0041"\r\n}\r\n\r\n'
)


def set_value(data: bytes, path: str, raw: bytes) -> bytes:
    """`data` with one value set."""
    return json_edit.apply_edits(data, [SetValue(json_edit.parse_path(path), raw)])


@pytest.mark.parametrize(
    ("path", "raw", "old", "new"),
    [
        (".n", b"2", b"1.0e5", b"2"),
        (".o.x[1]", b'"y"', b",2 ", b',"y" '),
        (".o", b"[]", b'{"x":  [ 1,2 ], "e": {}}', b"[]"),
        (".o.x[-]", b"3", b",2 ", b",2,3 "),
        (".o.x.-", b"3", b",2 ", b",2,3 "),
        (".o.e.k", b"1", b'"e": {}', b'"e": {"k": 1}'),
        (".o.z", b"1", b'"e": {}', b'"e": {}, "z": 1'),
        (".new", b"1", b'"\\u0041"', b'"\\u0041",\r\n\t"new": 1'),
        (".s", b'"A"', b"", b""),
        (".n", b"1.0e5", b"", b""),
    ],
)
def test_setting_a_value(path: str, raw: bytes, old: bytes, new: bytes) -> None:
    """A value is replaced, a child formatted like its sibling, an equal value left unchanged."""
    assert set_value(SAMPLE, path, raw) == (SAMPLE.replace(old, new, 1) if old else SAMPLE)


@pytest.mark.parametrize(
    ("data", "path", "result"),
    [
        (b'{"a": 1, "b": 2,\n "c": 3}', ".a", b'{"b": 2,\n "c": 3}'),
        (b'{"a": 1, "b": 2,\n "c": 3}', ".b", b'{"a": 1, "c": 3}'),
        (b'{"a": 1, "b": 2,\n "c": 3}', ".c", b'{"a": 1, "b": 2}'),
        (b'{ "a": 1 }', ".a", b"{ }"),
        (b"[1, [2], 3]", "[1]", b"[1, 3]"),
        (b'{"a": {"b": 1}}', ".a.c", b'{"a": {"b": 1}}'),
        (b'{"a": 1}', ".a.c", b'{"a": 1}'),
        (b"7", ".a", b"7"),
    ],
)
def test_removing_a_value(data: bytes, path: str, result: bytes) -> None:
    """A member is removed with one comma; removing a missing one changes nothing."""
    assert json_edit.apply_edits(data, [RemoveValue(json_edit.parse_path(path))]) == result


@pytest.mark.parametrize(
    ("data", "path", "line", "column", "words"),
    [
        (SAMPLE, ".x.y", 1, 1, ".x is not an object or array"),
        (SAMPLE, ".o.x[0].z", 3, 14, ".o.x[0] is not an object or array"),
        (SAMPLE, ".o.x[2]", 3, 14, "the array has 2 elements; use `[-]` to append"),
        (SAMPLE, ".o.x.y", 3, 14, "addressed by number"),
        (SAMPLE, "[0]", 1, 1, "it is an object"),
        (b"7", ".a", 1, 1, "the file is not an object or array"),
        (b'{"a": 1,\n "\\u0061": 2}', ".a", 2, 2, "'a' occurs twice"),
        (b'{"a": {},\n "a": {}}', ".a.b", 2, 2, "'a' occurs twice"),
        (b'{"a": {}} x', ".b", 1, 11, "an invalid character"),
    ],
)
def test_edits_that_cannot_be_made_are_refused(
    data: bytes, path: str, line: int, column: int, words: str
) -> None:
    """A missing parent, a wrong step, an ambiguous name and broken JSON, each with its position."""
    with pytest.raises(InvalidJson) as caught:
        set_value(data, path, b"1")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert words in caught.value.message


def test_a_duplicate_name_off_the_path_is_ignored() -> None:
    """Only names on the path to the value must be unique."""
    data = b'{"a": 1, "a": 2, "b": {"c": 3}}'
    assert set_value(data, ".b.c", b"4") == data.replace(b"3", b"4")


def test_edits_build_on_each_other() -> None:
    """A later edit sees the result of an earlier one."""
    edits = [
        SetValue(("o",), b'{"l": []}'),
        SetValue(("o", "l", "-"), b"{}"),
        SetValue(("o", "l", 0, "x"), b"1"),
        SetValue(("o", "l", 0, "y"), b"2"),
        RemoveValue(("o", "l", 0, "x")),
    ]
    assert json_edit.apply_edits(b"{}", edits) == b'{"o": {"l": [{"y": 2}]}}'


def test_members_are_found_by_name() -> None:
    """At any depth and in any spelling, but never inside strings."""
    data = rb'{"k": 1, "v": ["k", {"k": "x", "t": "\"k\": 2"}], "o": {"\u006b": {"k": null}}}'
    members = json_edit.find_members(data, "k")
    assert [data[t.start : t.end] for t in members] == [b"1", b'"x"', b"{", b"null"]
    assert len(json_edit.find_members(data, "k", top_level=True)) == 1
    assert json_edit.find_members(b"not json", "k") == ()
    with pytest.raises(InvalidJson, match="twice"):
        json_edit.find_members(b'[{"k": 1, "k": 2}]', "k")


def test_strings_are_encoded_as_utf8() -> None:
    """What UTF-8 cannot encode is escaped."""
    assert json_edit.encode_string('é"\n') == '"é\\"\\n"'.encode()
    assert json_edit.encode_string("\ud800") == b'"\\ud800"'
