"""Which files a list of patterns means."""

from __future__ import annotations

import pytest

from windlass.environments.source import template_files


@pytest.mark.parametrize(
    ("pattern", "path", "is_meant"),
    [
        ("a.yaml", "a.yaml", True),
        ("a.yaml", "x/a.yaml", False),
        ("**/a.yaml", "a.yaml", True),
        ("**/a.yaml", "x/y/a.yaml", True),
        ("*.yaml", "x/a.yaml", False),
        ("x", "x/y/a.yaml", True),
        ("x/", "x/a.yaml", True),
        ("./x", "x/a.yaml", True),
        ("x/*", "x/y/a.yaml", True),
        ("x/**/a.yaml", "x/a.yaml", True),
        ("x/**/a.yaml", "x/1/2/3/a.yaml", True),
        ("x/**/a.yaml", "y/x/a.yaml", False),
        ("**/x/**", "1/2/x/3/a.yaml", True),
        ("**", "x/a.yaml", True),
        ("?.yaml", "a.yaml", True),
        ("[ab].yaml", "c.yaml", False),
        ("[!ab].yaml", "c.yaml", True),
        ("*.yaml", ".a.yaml", True),
        ("A.yaml", "a.yaml", False),
        (".", "a.yaml", False),
    ],
)
def test_what_a_pattern_means(pattern: str, path: str, is_meant: bool) -> None:
    """Stars stay within a name, two of them do not, and directories cover what is below."""
    assert template_files.compile_patterns([pattern]).match(path) is is_meant
    assert template_files.compile_patterns(["nothing", pattern]).match(path) is is_meant


def test_no_pattern_takes_exponential_time() -> None:
    """Many stars do not take longer."""
    long = "/".join(["a" * 250] * 16)
    for pattern in ("*a" * 127 + "b", "**/" * 60 + "*" * 60 + "b", "/".join(["*a*a*b"] * 30)):
        assert not template_files.compile_patterns([pattern]).match(long)


def test_nothing_means_nothing() -> None:
    """The usual case."""
    assert not template_files.compile_patterns([]).match("a.yaml")
