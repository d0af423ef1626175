"""Texts that match a pattern, several out of one draw of bytes.

The pattern is walked as its parser sees it, and every choice in it takes the next byte: which
branch, how often, which character. Smaller bytes are earlier branches and fewer characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, repeat
from re import _constants as parts  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from hypothesis import strategies as st


def matching_texts(
    pattern: str, *, min_size: int = 1, max_size: int = 1
) -> st.SearchStrategy[list[str]]:
    """Lists of texts that match all of the pattern."""
    tree, whole = parser.parse(pattern), re.compile(pattern)
    simplest = "".join(_walked(tree, repeat(0)))
    assert whole.fullmatch(simplest), f"the shortest text does not match {pattern}"

    def spelled(drawn: bytes) -> list[str]:
        source = chain(drawn, repeat(0))
        count = min_size + next(source) % (max_size - min_size + 1)
        texts = ("".join(_walked(tree, source)) for _ in range(count))
        # What a pattern looks ahead for is not walked.
        return [text if whole.fullmatch(text) else simplest for text in texts]

    return st.binary(min_size=12 * max_size, max_size=400 * max_size).map(spelled)


def _walked(tree: Any, source: Iterator[int]) -> Iterator[str]:
    for kind, told in tree:
        if kind is parts.LITERAL:
            yield chr(told)
        elif kind is parts.IN:
            yield _character(told, source)
        elif kind is parts.NOT_LITERAL:
            yield _other([told], source)
        elif kind is parts.BRANCH:
            yield from _walked(told[1][next(source) % len(told[1])], source)
        elif kind is parts.SUBPATTERN:
            yield from _walked(told[3], source)
        elif kind is parts.MAX_REPEAT:
            least, most, inner = told
            for _ in range(_times(int(least), int(most), next(source))):
                yield from _walked(inner, source)
        else:
            assert kind is parts.ASSERT_NOT, f"{kind} is not walked"


def _times(least: int, most: int, byte: int) -> int:
    """A few, or for one byte in eight any number."""
    more = byte % 7 if byte < 224 else 8 * (byte - 223)
    return min(most, least + more)


def _character(told: Any, source: Iterator[int]) -> str:
    if told[0][0] is parts.NEGATE:
        return _other(_members(told[1:]), source)
    members = _members(told)
    return chr(members[next(source) % len(members)])


def _other(excluded: list[int], source: Iterator[int]) -> str:
    """Any character but these: a common one for most bytes."""
    first = next(source)
    number = first if first < 224 else int.from_bytes((next(source), next(source)))
    return "a" if number in excluded or 0xD800 <= number < 0xE000 else chr(number)


def _members(told: Any) -> list[int]:
    spans = [(span, span) if kind is parts.LITERAL else span for kind, span in told]
    return [number for first, last in spans for number in range(first, last + 1)]
