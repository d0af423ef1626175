"""Templates, by example."""

from __future__ import annotations

import pytest

from windlass.gateways.render import template
from windlass.gateways.render.template import VARIABLE_NAMES, TemplateError, TemplateVariables

VARIABLES = TemplateVariables(
    namespace="plant",
    gateway_name="area1",
    pod_ordinal=3,
    site_number="",
    timestamp=1700000000,
    labels={"app.kubernetes.io/name": "ignition", "tier": "edge", 'a"b\\c': "odd"},
    vars={"x": "{{.Namespace}}", "_y1": "Ü"},
)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("", ""),
        ("plain } }} { text\r\n", "plain } }} { text\r\n"),
        ('{"a":{"b":{{.PodOrdinal}}}}', '{"a":{"b":3}}'),
        ("{{.Namespace}}/{{ .GatewayName }}", "plant/area1"),
        ("[{{.SiteNumber}}]", "[]"),
        ("{{.Timestamp}}", "1700000000"),
        ("{{.Labels.tier}} {{.Vars._y1}}", "edge Ü"),
        ('{{index .Labels "app.kubernetes.io/name"}}', "ignition"),
        ('{{ index  .Vars\t"_y1" }}', "Ü"),
        (r'{{index .Labels "a\"b\\c"}}', "odd"),
        ('{{"{{"}}.Namespace}}', "{{.Namespace}}"),
        ('{{"}}"}} {{"a \\" b"}}', '}} a " b'),
        ("{{.Vars.x}}", "{{.Namespace}}"),
    ],
)
def test_expressions_are_replaced_once(text: str, result: str) -> None:
    """All other text stays."""
    assert template.render(text, VARIABLES) == result
    assert template.render_bytes(text.encode(), VARIABLES) == result.encode()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a\n{{.Nope}}", 2, "unknown variable `.Nope`"),
        ("{{.Labels}}", 1, "needs a key"),
        ("{{.Commit}}", 1, "no value for this gateway"),
        ("\n\n{{.Vars.z}}", 3, "no key 'z'; available: _y1, x"),
        ("{{.Namespace.x}}", 1, "only .Labels and .Vars"),
        ('{{index .Namespace "x"}}', 1, "only .Labels and .Vars"),
        ("{{.Namespace", 1, "without `}}` on the same line"),
        ("{{.Namespace\n}}", 1, "without `}}` on the same line"),
        ("{{", 1, "without `}}` on the same line"),
        ('{{"}}', 1, "invalid expression"),
        ("{{.Namespace | upper}}", 1, "invalid expression"),
        ("{{if .Namespace}}", 1, "invalid expression"),
        ("{{- .Namespace}}", 1, "invalid expression"),
        ("{{/* x */}}", 1, "invalid expression"),
        ("{{}}", 1, "invalid expression"),
        ("{{{.Namespace}}}", 1, "invalid expression"),
    ],
)
def test_invalid_templates_are_refused(text: str, line: int, words: str) -> None:
    """The error has the line, the cause and what is allowed instead."""
    with pytest.raises(TemplateError) as caught:
        template.render(text, VARIABLES)
    assert caught.value.line == line
    assert words in caught.value.message


def test_a_templated_file_must_be_text() -> None:
    """A NUL byte or invalid UTF-8 is an error with its line."""
    for content in (b"a\nb\0", b"a\n\xff"):
        with pytest.raises(TemplateError, match=r"line 2: .*`template`"):
            template.render_bytes(content, VARIABLES)


def test_a_byte_order_mark_stays() -> None:
    """BOM and line endings of a templated file are preserved."""
    content = b"\xef\xbb\xbfa\r\n{{.Namespace}}\r\n"
    assert template.render_bytes(content, VARIABLES) == b"\xef\xbb\xbfa\r\nplant\r\n"


def test_a_value_that_is_not_unicode_is_refused() -> None:
    """A value that UTF-8 cannot encode is an error, not a crash."""
    with pytest.raises(TemplateError, match=r"line 2: .*Unicode"):
        template.render_bytes(b"a\n{{.Vars.x}}", TemplateVariables(vars={"x": "\ud800"}))


def test_the_result_is_bounded() -> None:
    """A small file cannot become a large one."""
    variables = TemplateVariables(vars={"big": "x" * 40_000})
    assert len(template.render("{{.Vars.big}}", variables)) == 40_000
    with pytest.raises(TemplateError, match=r"line 2: .*4 times"):
        template.render("{{.Vars.big}}\n{{.Vars.big}}", variables)


def test_every_variable_has_a_name() -> None:
    """Each name of the specification has a field, and each field except the maps has a name."""
    assert set(VARIABLE_NAMES.values()) | {"labels", "vars"} == set(
        TemplateVariables.__dataclass_fields__
    )
    variables = TemplateVariables(**dict.fromkeys(VARIABLE_NAMES.values(), 7))
    assert {variables.value(name) for name in VARIABLE_NAMES} == {"7"}
