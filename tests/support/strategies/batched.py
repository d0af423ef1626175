"""Lists, rows and JSON out of few draws: hypothesis works per draw, not per value.

Bytes are one draw however many they are, so what consists of choices from columns is drawn as
bytes and spelled out, a few bytes a choice. Every combination can come up, and smaller bytes
are earlier choices, so examples shrink to fewer rows of first choices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import chain, cycle, islice
from typing import Any

from hypothesis import strategies as st

OPEN_LIST, OPEN_MAP, CLOSE = object(), object(), object()


def balanced_column(*groups: Sequence[Any]) -> list[Any]:
    """A column in which every group is chosen as often as any other."""
    longest = max(map(len, groups))
    return list(chain.from_iterable(islice(cycle(group), longest) for group in groups))


def row(*columns: Sequence[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """One choice from each column; a choice that stands there twice comes twice as often."""
    width, spelled = _reader(columns)
    return st.binary(min_size=width, max_size=width).map(lambda drawn: spelled(drawn)[0])


def rows(
    *columns: Sequence[Any], min_size: int = 0, max_size: int, usual: int = 4
) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """A list of such rows: of up to twice the `usual` number, each as likely, or of any."""
    width, spelled = _reader(columns)
    sizes = range(min_size, min(min_size + 2 * usual, max_size) + 1)
    drawn = st.one_of(
        *(st.binary(min_size=size * width, max_size=size * width) for size in sizes),
        st.binary(min_size=sizes[-1] * width, max_size=max_size * width),
    )
    return drawn.map(spelled)


def choices(
    choices: Sequence[Any], *, min_size: int = 0, max_size: int | None = None
) -> st.SearchStrategy[list[Any]]:
    """A list of choices from one short column."""
    count = len(choices)
    assert 0 < count <= 256, "a byte chooses"
    return st.binary(min_size=min_size, max_size=max_size).map(
        lambda drawn: [choices[byte % count] for byte in drawn]
    )


def _reader(
    columns: Sequence[Sequence[Any]],
) -> tuple[int, Callable[[bytes], list[tuple[Any, ...]]]]:
    """How many bytes a row has, and a function from bytes to rows; remaining bytes are no row."""
    ends, width = [], 0
    for column in columns:
        start, width = width, width + max(1, ((len(column) - 1).bit_length() + 7) // 8)
        ends.append((column, len(column), start, width))

    def spelled(drawn: bytes) -> list[tuple[Any, ...]]:
        return [
            tuple(
                column[int.from_bytes(drawn[at + start : at + end]) % count]
                for column, count, start, end in ends
            )
            for at in range(0, len(drawn) - width + 1, width)
        ]

    return width, spelled


def lists_of_json(
    leaves: Sequence[Any], names: Sequence[Any], max_size: int
) -> st.SearchStrategy[list[Any]]:
    """JSON lists of these leaves, with lists and maps of these names inside."""
    return _tokens(leaves, names, max_size).map(lambda tokens: _grown([], tokens))


def maps_of_json(
    leaves: Sequence[Any], names: Sequence[Any], max_size: int
) -> st.SearchStrategy[dict[str, Any]]:
    """JSON maps of these names, with leaves, lists and maps inside; `max_size` counts all."""
    return _tokens(leaves, names, max_size).map(lambda tokens: _grown({}, tokens))


def values_of_json(
    leaves: Sequence[Any], names: Sequence[Any], max_size: int
) -> st.SearchStrategy[Any]:
    """Any JSON value of these leaves and names."""
    return st.one_of(
        st.sampled_from(leaves).map(deepcopy),
        lists_of_json(leaves, names, max_size),
        maps_of_json(leaves, names, max_size),
    )


def substitute_numbers(shape: Any, leaves: Sequence[Any], names: Sequence[str] = ()) -> Any:
    """A value with its numbers replaced: a leaf or a name is the one that has that number."""
    if isinstance(shape, list):
        return [substitute_numbers(inner, leaves, names) for inner in shape]
    if isinstance(shape, dict):
        return {
            names[name % len(names)] if type(name) is int else name: substitute_numbers(
                inner, leaves, names
            )
            for name, inner in shape.items()
        }
    return leaves[shape % len(leaves)] if type(shape) is int else shape


def _tokens(
    leaves: Sequence[Any], names: Sequence[Any], max_size: int
) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """What goes where: a third of it opens a list or a map, or closes the innermost."""
    each = max(1, len(leaves) // 6)
    things = [*leaves, *[OPEN_LIST, OPEN_MAP, CLOSE] * each]
    return rows(names, things, max_size=max_size, usual=6)


def _grown(root: Any, tokens: list[tuple[Any, ...]]) -> Any:
    within = [root]
    for name, thing in tokens:
        if thing is CLOSE:
            del within[max(1, len(within) - 1) :]
            continue
        opened = thing is OPEN_LIST or thing is OPEN_MAP
        value: Any = ([] if thing is OPEN_LIST else {}) if opened else deepcopy(thing)
        if isinstance(within[-1], list):
            within[-1].append(value)
        else:
            within[-1][name] = value
        if opened:
            within.append(value)
    return root
