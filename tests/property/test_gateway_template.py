"""Rendering is total: text, or TemplateError."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.gateways.render import template
from windlass.gateways.render.template import TemplateError, TemplateVariables

T = TypeVar("T")
VARIABLES = TemplateVariables(namespace="n", labels={"a/b": "l"}, vars={"x": "{{v}}"})
PIECES = ["{{", "}}", "{", "}", ".", "Namespace", "Vars", "x", '"', "\\", "index", " ", "\n", "é"]
TEXT = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from([*PIECES, ".Vars.x", '.Labels "a/b"', "{{.Namespace}}"])).map("".join),
)


def outcome(call: Callable[[], T]) -> T | TemplateError:
    """The result of a call, or the only error it may raise."""
    try:
        return call()
    except TemplateError as error:
        return error


@given(text=TEXT)
@settings(max_examples=300, deadline=None)
def test_rendering_is_total(text: str) -> None:
    """Any text renders within the bound, or raises an error with one of its lines."""
    result = outcome(lambda: template.render(text, VARIABLES))
    if isinstance(result, TemplateError):
        assert 1 <= result.line <= text.count("\n") + 1
    else:
        assert len(result) <= 4 * len(text.encode("utf-8", "surrogatepass")) + 65536
        assert "{{" in text or result == text


@given(
    content=st.one_of(
        st.binary(max_size=60), TEXT.map(lambda text: text.encode("utf-8", "replace"))
    )
)
@settings(max_examples=200, deadline=None)
def test_rendering_bytes_is_total(content: bytes) -> None:
    """Any bytes render or raise TemplateError; without expressions they stay unchanged."""
    result = outcome(lambda: template.render_bytes(content, VARIABLES))
    if isinstance(result, TemplateError):
        assert 1 <= result.line <= content.count(b"\n") + 1
    else:
        assert b"{{" in content or result == content


@given(text=st.text())
@settings(max_examples=100, deadline=None)
def test_every_text_can_be_escaped(text: str) -> None:
    """Escaping `{{` as a literal gives any text back."""
    assert template.render(text.replace("{{", '{{"{{"}}'), VARIABLES) == text
