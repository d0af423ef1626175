"""Labels and annotations survive the kubelet's quoting."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windlass.gateways.tree import gateway_pod

NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789./-_", min_size=1)
NAMED = {"\a": "a", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v"}


def _quote(text: str) -> str:
    """As Go's %q formats it."""
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char in NAMED:
        return "\\" + NAMED[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


@given(st.dictionaries(NAMES, st.text(st.characters(exclude_categories=["Cs"]))))
def test_parsing_is_the_inverse_of_quoting(pairs: dict[str, str]) -> None:
    """Any value of a label or annotation is parsed unchanged."""
    text = "".join(f"{name}={_quote(value)}\n" for name, value in pairs.items())
    assert gateway_pod.parse_downward_file(text) == pairs


@given(st.text())
def test_parsing_is_total(text: str) -> None:
    """No content of the file is an error."""
    gateway_pod.parse_downward_file(text)
