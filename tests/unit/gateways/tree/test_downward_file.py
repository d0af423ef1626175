"""Files of the downward API."""

from __future__ import annotations

import pytest

from windlass.gateways.tree import gateway_pod


def test_pairs_are_parsed() -> None:
    """One pair per line, quoted as Go quotes."""
    text = 'a="1"\nignition-sync.io/service-path="services/site"\nempty=""\n'
    assert gateway_pod.parse_downward_file(text) == {
        "a": "1",
        "ignition-sync.io/service-path": "services/site",
        "empty": "",
    }


@pytest.mark.parametrize(
    ("quoted", "plain"),
    [
        (r"\"x\"", '"x"'),
        (r"a\\b", "a\\b"),
        (r"a\nb\tc\r\a\b\f\v", "a\nb\tc\r\a\b\f\v"),
        (r"\x41\u00e9\U0001F600\101", "Aé😀A"),
        (r"\U00110000", "\ufffd"),
        ("ünïcode = x", "ünïcode = x"),
    ],
)
def test_escapes_are_decoded(quoted: str, plain: str) -> None:
    """Every escape that Go writes."""
    assert gateway_pod.parse_downward_file(f'a="{quoted}"') == {"a": plain}


@pytest.mark.parametrize("text", ["", "\n\n", "a", "a=b", '="x"', 'a="x', 'a="x\\"', 'a b="x"'])
def test_lines_that_are_not_pairs_are_skipped(text: str) -> None:
    """A partly written file is not an error."""
    assert gateway_pod.parse_downward_file(text + '\ngood="1"') == {"good": "1"}
