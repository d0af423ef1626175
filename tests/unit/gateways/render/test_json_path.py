"""Paths into JSON values, by example."""

from __future__ import annotations

import pytest

from windlass.gateways.render import json_edit


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (".a", ("a",)),
        (".a.b[0].c", ("a", "b", 0, "c")),
        ("[12][0]", (12, 0)),
        (".a[-]", ("a", "-")),
        (".a.-", ("a", "-")),
        ('["a.b"].c', ("a.b", "c")),
        (r'.x["q\"\\"]', ("x", 'q"\\')),
        ('[""]', ("",)),
        (".0", ("0",)),
        (".com-x y", ("com-x y",)),
    ],
)
def test_paths_are_parsed_and_formatted(text: str, path: json_edit.JsonPath) -> None:
    """Names, indices, quoted names and the position after the last element."""
    assert json_edit.parse_path(text) == path
    assert json_edit.parse_path(json_edit.format_path(path)) == path


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "a", "$.a", "..a", ".a..b", ".a[", ".a[x]", ".a[01]", ".a[-1]", ".a[-].b"),
        *(".-.b", ".a[9999999999]", '.a["b]', ".a\n", "." + "x" * 1024),
    ],
)
def test_invalid_paths_are_refused(text: str) -> None:
    """Text that is not a path raises ValueError."""
    with pytest.raises(ValueError, match="path"):
        json_edit.parse_path(text)
