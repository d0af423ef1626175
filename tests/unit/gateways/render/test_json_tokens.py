"""Which bytes are valid JSON, and where they stop being so."""

from __future__ import annotations

import pytest

from windlass.gateways.render import json_tokens
from windlass.gateways.render.json_tokens import InvalidJson


def kinds(data: bytes) -> list[tuple[str, bytes]]:
    """Each token's kind and bytes."""
    return [(token.kind, data[token.start : token.end]) for token in json_tokens.tokenize(data)]


def test_names_and_values_are_distinguished() -> None:
    """Separators are not listed."""
    data = b'\xef\xbb\xbf {"a": [1.0e5, "b"], "c":{}, "d": null}\r\n'
    assert kinds(data) == [
        ("{", b"{"),
        ("name", b'"a"'),
        ("[", b"["),
        ("number", b"1.0e5"),
        ("string", b'"b"'),
        ("]", b"]"),
        ("name", b'"c"'),
        ("{", b"{"),
        ("}", b"}"),
        ("name", b'"d"'),
        ("word", b"null"),
        ("}", b"}"),
    ]


@pytest.mark.parametrize(
    "data",
    [
        *(b"0", b"-0.5E+10", b'"\\u00e9\\n\\/"', b'"\\ud800"', b" [ ] ", b"1" * 5000),
        *(b'{"a":1,"a":2}', b"\xef\xbb\xbf{}", b"[" * 5000 + b"]" * 5000),
    ],
)
def test_valid_json_is_accepted(data: bytes) -> None:
    """However deep or long."""
    json_tokens.check_json(data)
    assert kinds(data)


@pytest.mark.parametrize(
    ("data", "line", "column", "words"),
    [
        (b"", 1, 1, "found the end of the file, expected a value"),
        (b"{\n  'a': 1}", 2, 3, "expected a member name in quotes or `}`"),
        (b'{"a": 1,}', 1, 9, "found `}`, expected a member name in quotes"),
        (b"[1,\r\n 2,\r\n]", 3, 1, "found `]`, expected a value"),
        (b"[1 2]", 1, 4, "found a number, expected `,` or `]`"),
        (b'{"a" 1}', 1, 6, "found a number, expected `:`"),
        (b'{"a": 01}', 1, 8, "expected `,` or `}`"),
        (b"[1.]", 1, 3, "an invalid character"),
        (b"[tru]", 1, 2, "an invalid character"),
        (b"[NaN]", 1, 2, "an invalid character"),
        (b'{"\xc3\xa9": 1 // x\n}', 1, 9, "a comment"),
        (b'["a\nb"]', 1, 2, "raw control character"),
        (b'["\\x"]', 1, 2, "invalid escape"),
        (b'["a', 1, 2, "not closed"),
        (b'\xef\xbb\xbf"a" "b"', 1, 5, "found a string, expected the end of the file"),
        (b"[1]]", 1, 4, "found `]`"),
        (b"[}", 1, 2, "found `}`"),
        (b"[[1]", 1, 5, "found the end of the file"),
        (b'["a",\n"\xff"]', 2, 2, "not valid UTF-8"),
        (b'"\xed\xa0\x80"', 1, 2, "not valid UTF-8"),
        (b'"\xc3', 1, 2, "not valid UTF-8"),
        (b"\xff\xfe{\0}\0", 1, 1, "not valid UTF-8"),
        (b"{}\xef\xbb\xbf", 1, 3, "expected the end of the file"),
    ],
)
def test_invalid_json_is_refused(data: bytes, line: int, column: int, words: str) -> None:
    """The error has the position, what was found and what was expected."""
    for read in (json_tokens.check_json, kinds):
        with pytest.raises(InvalidJson) as caught:
            read(data)
        assert (caught.value.line, caught.value.column) == (line, column)
        assert words in caught.value.message


def test_a_character_may_cross_a_chunk_boundary() -> None:
    """A character split between two chunks is valid; an invalid one has its position reported."""
    head = b'"' + b"x" * (64 * 1024 - 2)
    json_tokens.check_json(head + "é€😀".encode() + b'"')
    with pytest.raises(InvalidJson) as caught:
        json_tokens.check_json(head + b'\xc3\n"')
    assert caught.value.column == 64 * 1024
