"""Our matcher compared with bash, on random trees and patterns."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.gateways.tree import globs

NAME = st.text("ab.-]^é", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
TREE = st.lists(st.lists(NAME, min_size=1, max_size=4).map("/".join), min_size=1, max_size=12)
# Left out, because bash does not agree with itself on them: `[.`, `[:` or `[=` that is never
# ended, and `[=b=]`, after which a `]` that should close the set is read as one of its members.
BRACKET = st.builds(
    "[{}{}]".format,
    st.sampled_from(["", "!", "^"]),
    st.lists(
        st.sampled_from(
            (
                *("a", "b", "]", ".", "-", "^", "a-b", "b-a", "[:alpha:]", "[:punct:]", "[:no:]"),
                *("[.a.]", "[.a.]-b", "\\]", "\\a", "[a", "é", "+--"),
            )
        ),
        min_size=1,
        max_size=3,
    ).map("".join),
)
COMPONENT = st.one_of(
    NAME,
    st.sampled_from(["**", "*", "?", "**", "***", "a**", ".*", "*.", "[", "a[", "\\*", "."]),
    st.lists(
        st.one_of(st.sampled_from(["*", "?", "a", "b", ".", "-", "]", "\\a"]), BRACKET),
        min_size=1,
        max_size=4,
    ).map("".join),
)
PATTERN = (
    st.tuples(st.lists(COMPONENT, min_size=1, max_size=4), st.sampled_from(["", "", "/", "//"]))
    .map(lambda parts: "/".join(parts[0]) + parts[1])
    .filter(lambda pattern: not pattern.startswith("!"))
)
SCRIPT = 'cd -- "$1" || exit 1; shopt -s globstar nullglob dotglob\n'


def create_files(root: Path, paths: Sequence[str]) -> dict[str, bool]:
    """Create all possible files below `root`; returns every path and whether it is a directory."""
    for path in paths:
        file = root / path
        if any(parent.is_file() for parent in file.parents) or file.exists():
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return {path.relative_to(root).as_posix(): path.is_dir() for path in root.rglob("*")}


def expand(root: Path, patterns: Sequence[str]) -> list[set[str]]:
    """What bash prints for each pattern in `root`."""
    commands = "".join(f"printf '%s\\0' {pattern}; printf '\\n'\n" for pattern in patterns)
    finished = subprocess.run(
        ["bash", "-c", SCRIPT + commands, "bash", str(root)],
        env={"LC_ALL": "C.UTF-8"},
        capture_output=True,
        check=True,
        timeout=60,
    )
    lines = finished.stdout.decode().split("\n")[: len(patterns)]
    return [set(line.split("\0")) - {""} for line in lines]


def existing_paths(printed: set[str], tree: dict[str, bool]) -> set[str]:
    """Printed words that exist: bash does not check words without wildcards, and prints `a/.`."""
    paths = set()
    for word in printed:
        names = [name for name in word.split("/") if name not in ("", ".")]
        directory = word.endswith(("/", "/."))
        path = "/".join(names)
        if path in tree and (tree[path] or not directory):
            paths.add(path)
    return paths


@pytest.mark.scenario("G27")
@given(paths=TREE, patterns=st.lists(PATTERN, min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_the_matcher_agrees_with_bash(paths: list[str], patterns: list[str]) -> None:
    """Every pattern matches the same files and directories."""
    with TemporaryDirectory() as directory:
        tree = create_files(Path(directory), paths)
        expansions = expand(Path(directory), patterns)
    for pattern, printed in zip(patterns, expansions, strict=True):
        glob = globs.compile_glob(pattern)
        matched = {path for path, is_dir in tree.items() if glob.matches(path, is_dir=is_dir)}
        assert matched == existing_paths(printed, tree), pattern
