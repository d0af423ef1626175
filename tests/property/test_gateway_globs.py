"""Many patterns together match as each of them alone."""

from __future__ import annotations

from itertools import product

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.strategies.batched import balanced_column, rows
from windlass.gateways.tree import globs
from windlass.gateways.tree.globs import GlobSet

NAMES = ["a", "b", *map("".join, product("ab.", repeat=2))]
NAMES.remove("..")
PARTS = balanced_column(NAMES, ["**", "*", "?", "a*", "*b", "[!a]", "**"])
DEPTHS = (1, 2, 3, 4)
PATHS = rows(DEPTHS, *[NAMES] * 4, max_size=12).map(
    lambda drawn: ["/".join(names[:depth]) for depth, *names in drawn]
)
PATTERNS = rows(DEPTHS, ("", "", "/"), *[PARTS] * 4, max_size=6).map(
    lambda drawn: ["/".join(parts[:depth]) + tail for depth, tail, *parts in drawn]
)


def covers(pattern: str, path: str) -> bool:
    """Whether the pattern alone matches the file or a directory above it."""
    glob = globs.compile_glob(pattern)
    names = path.split("/")
    parents = ("/".join(names[:depth]) for depth in range(1, len(names)))
    return glob.matches(path) or any(glob.matches(folder, is_dir=True) for folder in parents)


@given(patterns=PATTERNS, paths=PATHS)
@settings(max_examples=150, deadline=None)
def test_a_set_matches_like_its_patterns(patterns: list[str], paths: list[str]) -> None:
    """`match` returns the first covering pattern, `unused` those that cover nothing."""
    glob_set = GlobSet(patterns)
    for path in paths:
        covering = [pattern for pattern in patterns if covers(pattern, path)]
        assert glob_set.match(path) == (covering[0] if covering else None)
    unused = [p for p in dict.fromkeys(patterns) if not any(covers(p, path) for path in paths)]
    assert glob_set.unused(paths) == tuple(unused)


@given(pattern=st.text(max_size=30), name=st.text(max_size=30))
@example(pattern="[[:", name="[")
@example(pattern="[[.", name="[")
@example(pattern="[a-", name="[a-")
@example(pattern="[!", name="[!")
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_pattern(pattern: str, name: str) -> None:
    """Compiling and matching never fail; an escaped name matches itself and nothing else."""
    assert globs.compile_component(pattern).matches(name) in (True, False)
    literal = globs.compile_component("".join("\\" + char for char in name))
    assert literal.matches(name)
    assert literal.literal == name
    assert literal.matches(pattern) == (pattern == name)
