"""What patterns mean, by example."""

from __future__ import annotations

import pytest

from windlass.gateways.tree import globs
from windlass.gateways.tree.globs import GlobSet

ENGINE = "config/resources/core/ignition/tag-definition/MQTT Engine"


@pytest.mark.scenario("G26")
@pytest.mark.parametrize("pattern", ["**/tag-*/MQTT Engine/", "**/tag-*/MQTT Engine"])
def test_a_directory_covers_its_subtree(pattern: str) -> None:
    """With and without the slash, all below a matched directory is covered, nothing beside it."""
    excludes = GlobSet([pattern])
    assert excludes.match(f"{ENGINE}/a/tags.json") == pattern
    assert excludes.match(ENGINE, is_dir=True) == pattern
    assert excludes.match(f"{ENGINE} 2/a/tags.json") is None
    assert excludes.match("config/tags/MQTT Engine/x") is None


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
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
def test_rules(pattern: str, yes: list[str], no: list[str]) -> None:
    """The rules of bash, for files."""
    glob = globs.compile_glob(pattern)
    assert [path for path in yes if not glob.matches(path)] == []
    assert [path for path in no if glob.matches(path)] == []


def test_directories() -> None:
    """A trailing slash asks for a directory; a final `**` means its parent if that is one."""
    assert globs.compile_glob("a/").matches("a", is_dir=True)
    assert not globs.compile_glob("a/").matches("a")
    assert globs.compile_glob("a/**").matches("a", is_dir=True)
    assert globs.compile_glob("a/.").matches("a", is_dir=True)
    assert not globs.compile_glob("a/.").matches("a")
    assert not globs.compile_glob("**/").matches("a")


def test_the_first_pattern_counts() -> None:
    """A path belongs to the first of its patterns, be it by a directory above or by itself."""
    patterns = GlobSet(["**/x", "a/", "**"])
    assert patterns.match("a/b") == "a/"
    assert patterns.match("a/x") == "**/x"
    assert patterns.match("c") == "**"


def test_unused_patterns() -> None:
    """A pattern is used when it covers a file, even if an earlier one covers it too."""
    patterns = GlobSet(["a/", "**/b", "c", "**/.git/"])
    assert patterns.unused(["a/b", "d"]) == ("c", "**/.git/")
    assert GlobSet([]).unused(["a"]) == ()


@pytest.mark.parametrize("pattern", ["", "!a", "a\nb", "a\x7f", "x" * 1025])
def test_refused_patterns(pattern: str) -> None:
    """Negation, control characters, nothing and too much are refused."""
    with pytest.raises(ValueError, match="pattern"):
        globs.check_pattern(pattern)
    with pytest.raises(ValueError, match="pattern"):
        GlobSet([pattern])


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers stay right when the memory is thrown away between two names."""
    monkeypatch.setattr(globs, "_MAX_CACHED_STATES", 2)
    patterns = GlobSet(["a/*/c/", "**/d"])
    paths = ["a/b/c/x", "a/b/e", "q/d", "a/b/c/d", "r/s/t"]
    assert [patterns.match(path) for path in paths * 2] == [
        *["a/*/c/", None, "**/d", "a/*/c/", None] * 2
    ]


def test_hostile_patterns_cost_little() -> None:
    """Patterns that are exponential for a backtracking matcher answer at once."""
    assert not globs.compile_glob("*a" * 500).matches("a" * 254 + "b")
    assert not globs.compile_glob("**/a/" * 200 + "b").matches("a/" * 100 + "c")
    assert not globs.compile_glob("*").matches("a" * 100_000)
