"""What glob patterns match, by example."""

from __future__ import annotations

import pytest

from windlass.gateways.tree import globs
from windlass.gateways.tree.globs import GlobSet

ENGINE = "config/resources/core/ignition/tag-definition/MQTT Engine"


@pytest.mark.scenario("G26")
@pytest.mark.parametrize("pattern", ["**/tag-*/MQTT Engine/", "**/tag-*/MQTT Engine"])
def test_a_directory_covers_its_subtree(pattern: str) -> None:
    """With and without the slash, all below a matched directory is covered, and nothing else."""
    excludes = GlobSet([pattern])
    assert excludes.match(f"{ENGINE}/a/tags.json") == pattern
    assert excludes.match(ENGINE, is_dir=True) == pattern
    assert excludes.match(f"{ENGINE} 2/a/tags.json") is None
    assert excludes.match("config/tags/MQTT Engine/x") is None


@pytest.mark.parametrize(
    ("pattern", "matching", "not_matching"),
    [
        ("*.idb", [".idb", "a.idb"], ["a/b.idb", "a.idb2"]),
        ("**/*.idb*", ["x.idb", "a/b/x.idb.bak"], ["a/idb"]),
        ("a/**", ["a/b", "a/b/c", "a/.x"], ["a", "b/a/c"]),
        ("a/**/z", ["a/z", "a/b/c/z"], ["z", "a/z/y"]),
        ("a**b", ["ab", "axb"], ["a/b"]),
        ("***", ["a"], ["a/b"]),
        ("[!a-c]x", ["dx", "!x"], ["ax", "x", "/x"]),
        ("[]a-]", ["]", "a", "-"], ["b", ""]),
        ("[a", ["[a"], ["a"]),
        ("[a/b]", ["[a/b]"], ["a", "b", "/"]),
        ("[[:digit:][:upper:]]?", ["1x", "Xé"], ["xx", "1"]),
        ("[[.-.]-0]", ["-", ".", "0"], ["1"]),
        ("[[=a=]b]", ["a", "b"], ["="]),
        ("[[.hyphen.]]", [], ["-", "h"]),
        (r"\*[\]]", ["*]"], ["a]", r"\*]"]),
        ("x\\", ["x\\"], ["x"]),
        ("{a,b}", ["{a,b}"], ["a", "b"]),
        ("./a//b", ["a/b"], ["./a//b"]),
        ("/a", [], ["a"]),
        ("../a", [], ["a"]),
        ("A", ["A"], ["a"]),
        ("*a*b*c*", ["abc", "xaxbxcx"], ["acb", "ab"]),
        ("a*a", ["aa", "aba"], ["a"]),
    ],
)
def test_patterns_match_like_bash(
    pattern: str, matching: list[str], not_matching: list[str]
) -> None:
    """For files."""
    glob = globs.compile_glob(pattern)
    assert [path for path in matching if not glob.matches(path)] == []
    assert [path for path in not_matching if glob.matches(path)] == []


def test_a_trailing_slash_matches_directories_only() -> None:
    """A final `**` also matches its parent directory."""
    assert globs.compile_glob("a/").matches("a", is_dir=True)
    assert not globs.compile_glob("a/").matches("a")
    assert globs.compile_glob("a/**").matches("a", is_dir=True)
    assert globs.compile_glob("a/.").matches("a", is_dir=True)
    assert not globs.compile_glob("a/.").matches("a")
    assert not globs.compile_glob("**/").matches("a")


def test_the_first_matching_pattern_is_returned() -> None:
    """Whether it matches the path itself or a directory above it."""
    patterns = GlobSet(["**/x", "a/", "**"])
    assert patterns.match("a/b") == "a/"
    assert patterns.match("a/x") == "**/x"
    assert patterns.match("c") == "**"


def test_unused_patterns_are_listed() -> None:
    """A pattern is used when it covers a file, even if an earlier one covers it too."""
    patterns = GlobSet(["a/", "**/b", "c", "**/.git/"])
    assert patterns.unused(["a/b", "d"]) == ("c", "**/.git/")
    assert GlobSet([]).unused(["a"]) == ()


@pytest.mark.parametrize("pattern", ["", "!a", "a\nb", "a\x7f", "x" * 1025])
def test_invalid_patterns_are_refused(pattern: str) -> None:
    """Negation, control characters, empty and overlong patterns."""
    with pytest.raises(ValueError, match="pattern"):
        globs.check_pattern(pattern)
    with pytest.raises(ValueError, match="pattern"):
        GlobSet([pattern])


def test_the_cache_of_states_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results stay correct when it is cleared between two paths."""
    monkeypatch.setattr(globs, "_MAX_CACHED_STATES", 2)
    patterns = GlobSet(["a/*/c/", "**/d"])
    paths = ["a/b/c/x", "a/b/e", "q/d", "a/b/c/d", "r/s/t"]
    assert [patterns.match(path) for path in paths * 2] == [
        *["a/*/c/", None, "**/d", "a/*/c/", None] * 2
    ]


def test_hostile_patterns_are_matched_fast() -> None:
    """Patterns that take a backtracking matcher exponential time."""
    assert not globs.compile_glob("*a" * 500).matches("a" * 254 + "b")
    assert not globs.compile_glob("**/a/" * 200 + "b").matches("a/" * 100 + "c")
    assert not globs.compile_glob("*").matches("a" * 100_000)
