"""systemName and fields, by example."""

from __future__ import annotations

import pytest

from windlass.gateways.render import patching
from windlass.gateways.render.json_tokens import InvalidJson
from windlass.gateways.render.patching import FieldRule, FieldValue
from windlass.gateways.render.template import TemplateError, TemplateVariables

VARIABLES = TemplateVariables(gateway_name="area1", pod_ordinal=2)

# CRLF, BOM, odd spacing, number spelling, duplicates elsewhere, no final newline.
BEFORE = (
    b'\xef\xbb\xbf{\r\n  "systemName" : "old",\r\n  "n": 1.0e5, "x": 1, "x": -0,\r\n'
    b'  "inner": {"list": [{"systemName":"old \\u00e9"}, "systemName", ["systemName"]],\r\n'
    b'\t"text": "\\"systemName\\": \\"old\\"", "SystemName": "old", "systemName ": "old"},\r\n'
    b'  "number": {"systemName": 7}, "object": {"systemName": {"systemName": "old"}},\r\n'
    b'  "null": {"systemName": null}, "list": {"systemName": ["old"]}}'
)


@pytest.mark.scenario("G29")
def test_system_names_are_set_at_every_depth() -> None:
    """Only string members of exactly that name change; all other bytes stay."""
    edited = patching.set_system_name(BEFORE, "area 1", "AnyDepth")
    expected = (
        BEFORE.replace(b'"systemName" : "old"', b'"systemName" : "area 1"')
        .replace(b'"systemName":"old \\u00e9"', b'"systemName":"area 1"')
        .replace(b'{"systemName": "old"}', b'{"systemName": "area 1"}')
    )
    assert edited.content == expected
    assert edited.replaced == 3
    assert patching.set_system_name(expected, "area 1", "AnyDepth") == (expected, 3, ())


@pytest.mark.scenario("G29")
def test_only_the_top_level_system_name_is_set() -> None:
    """With TopLevel only the member of the outermost object changes."""
    edited = patching.set_system_name(BEFORE, 'q"\\é', "TopLevel")
    assert edited.content == BEFORE.replace(
        b'"systemName" : "old"', '"systemName" : "q\\"\\\\é"'.encode()
    )
    assert edited.replaced == 1
    assert patching.set_system_name(b'[{"systemName": "x"}]', "y", "TopLevel").replaced == 0


def test_two_system_names_in_one_object_are_refused() -> None:
    """Which of them the gateway reads is undefined."""
    with pytest.raises(InvalidJson, match="twice"):
        patching.set_system_name(b'{"systemName": "a", "systemName": "b"}', "c", "AnyDepth")


@pytest.mark.parametrize(
    ("annotation", "name_template", "name"),
    [
        ("literal {{.X}}", "t", "literal {{.X}}"),
        ("", "gw-{{.PodOrdinal}}", "gw-2"),
        ("", "", "area1"),
    ],
)
def test_the_system_name_is_chosen_by_precedence(
    annotation: str, name_template: str, name: str
) -> None:
    """The annotation wins over the template, which wins over the gateway's name."""
    assert patching.choose_system_name(annotation, name_template, VARIABLES) == name


@pytest.mark.parametrize(
    ("content", "text", "result"),
    [
        (b'{"a": {"b": "x"}}', "y", b'{"a": {"b": "y"}}'),
        (b'{"a": {"b": "1"}}', "2", b'{"a": {"b": "2"}}'),
        (b'{"a": {"b": 1}}', "2.50", b'{"a": {"b": 2.50}}'),
        (b'{"a": {"b": 1}}', "true", b'{"a": {"b": "true"}}'),
        (b'{"a": {"b": 1}}', " 2", b'{"a": {"b": " 2"}}'),
        (b'{"a": {"b": 1}}', "2]", b'{"a": {"b": "2]"}}'),
        (b'{"a": {"b": true}}', "false", b'{"a": {"b": false}}'),
        (b'{"a": {"b": true}}', "0", b'{"a": {"b": "0"}}'),
        (b'{"a": {}}', "x", b'{"a": {}}'),
        (b'{"a": 1}', "x", b'{"a": 1}'),
        (b"[]", "x", b"[]"),
    ],
)
def test_a_field_keeps_its_type(content: bytes, text: str, result: bytes) -> None:
    """An existing value is replaced and keeps its type where the text allows it."""
    edited = patching.set_fields(content, [FieldValue(("a", "b"), text)])
    assert edited.content == result
    assert edited.warnings == ()


@pytest.mark.parametrize("value", [b"{}", b"[1]", b"null"])
def test_a_field_that_is_not_a_scalar_is_not_changed(value: bytes) -> None:
    """A value that is not a string, number or boolean stays, with a warning."""
    content = b'{"a": ' + value + b', "b": "x"}'
    fields = [FieldValue(("a",), "1"), FieldValue(("b",), "y")]
    edited = patching.set_fields(content, fields)
    assert edited.content == content.replace(b'"x"', b'"y"')
    assert edited.warnings == (".a is not a string, number or boolean; not changed",)


def test_fields_are_resolved_once_per_gateway() -> None:
    """Paths are parsed and templates rendered before any file is read."""
    fields = [FieldRule(".a[0]", "{{.GatewayName}}"), FieldRule(".b", "c")]
    assert patching.resolve_fields(fields, VARIABLES) == (
        FieldValue(("a", 0), "area1"),
        FieldValue(("b",), "c"),
    )
    with pytest.raises(TemplateError):
        patching.resolve_fields([FieldRule(".a", "{{.Nope}}")], VARIABLES)
    with pytest.raises(ValueError, match="cannot append"):
        patching.resolve_fields([FieldRule(".a[-]", "x")], VARIABLES)


def test_a_duplicate_name_on_a_fields_path_is_refused() -> None:
    """Which of the two the gateway reads is undefined."""
    with pytest.raises(InvalidJson, match="twice"):
        patching.set_fields(b'{"a": 1, "a": 2}', [FieldValue(("a",), "3")])
