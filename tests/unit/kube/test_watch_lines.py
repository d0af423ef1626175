"""Lines out of a byte stream."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from windlass.kube.watch import LineSplitter

_line = st.binary(min_size=1, max_size=40).map(lambda b: b.replace(b"\n", b"."))


def _split(chunks: list[bytes]) -> tuple[list[bytes], bool]:
    splitter = LineSplitter()
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return lines, splitter.has_unfinished


@given(st.lists(_line, max_size=12), st.binary(max_size=10), st.data())
def test_any_chunking_gives_the_same_lines(
    lines: list[bytes], tail: bytes, data: st.DataObject
) -> None:
    """However the network splits the bytes, the lines are the same."""
    rest = tail.replace(b"\n", b".")
    stream = b"".join(line + b"\n" for line in lines) + rest
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20).map(sorted))
    edges = [0, *cuts, len(stream)]
    chunks = [stream[start:end] for start, end in itertools.pairwise(edges)]
    assert _split(chunks) == (lines, bool(rest))


def test_empty_lines_are_dropped() -> None:
    """An extra line break is not an event."""
    assert _split([b"\n\na\n", b"\n", b"b", b"\n\n"]) == ([b"a", b"b"], False)


def test_long_line_costs_linear() -> None:
    """A line in many chunks is joined once: parts are kept apart until it is complete."""
    chunk = b"x" * 1000
    splitter = LineSplitter()
    for _ in range(20_000):
        assert splitter.feed(chunk) == []
    [line] = splitter.feed(b"\n")
    assert len(line) == 20_000_000
    assert not splitter.has_unfinished
