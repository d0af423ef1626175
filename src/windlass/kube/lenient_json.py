"""Lenient JSON scanner: brackets and strings only, for text that parsers refuse.

Parsers fail on text that is not UTF-8, lone surrogates or endless nesting. Where an object begins
and ends can be found without decoding. The cost is linear and there is no recursion, so depth does
not matter. Only unreadable objects are scanned here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|["\[\]{}]', re.DOTALL)
_ARRAY = re.compile(rb"\s*:\s*\[")
_PARTNER = {b"]": b"[", b"}": b"{"}


class Unbalanced(ValueError):
    """Brackets or quotes that do not close in order."""


@dataclass(frozen=True, slots=True)
class _Token:
    text: bytes
    start: int
    end: int
    depth: int
    """How many brackets are open around it; a bracket counts as outside of itself."""


def is_one_object(text: bytes) -> bool:
    """Whether the text is one object from its first to its last byte."""
    try:
        edges = [token for token in _tokens(text) if token.depth == 0]
    except Unbalanced:
        return False
    return (
        [edge.text for edge in edges] == [b"{", b"}"]
        and edges[0].start == 0
        and edges[1].end == len(text)
    )


def cut_array(text: bytes, key: bytes) -> tuple[bytes, list[bytes]]:
    """The outermost object with the array at `key` emptied, and the objects of that array."""
    tokens = _tokens(text)
    quoted = b'"' + key + b'"'
    for token in tokens:
        opening = _ARRAY.match(text, token.end)
        if token.depth == 1 and token.text == quoted and opening is not None:
            objects, end = _objects(text, tokens)
            for _ in tokens:
                pass  # What follows must close as well.
            return text[: opening.end()] + text[end:], objects
    raise Unbalanced("no such array")


def _objects(text: bytes, tokens: Iterator[_Token]) -> tuple[list[bytes], int]:
    objects: list[bytes] = []
    start = 0
    for token in tokens:
        if token.depth == 2 and token.text == b"{":
            start = token.start
        elif token.depth == 2 and token.text == b"}":
            objects.append(text[start : token.end])
        elif token.depth == 1 and token.text == b"]":
            return objects, token.start
    raise Unbalanced("the array does not end")


def _tokens(text: bytes) -> Iterator[_Token]:
    """Strings and brackets in order; Unbalanced at the first that does not fit."""
    opened: list[bytes] = []
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token == b'"':
            raise Unbalanced("a string does not end")
        if token in _PARTNER and (not opened or opened.pop() != _PARTNER[token]):
            raise Unbalanced("a bracket closes that was not opened")
        yield _Token(token, match.start(), match.end(), len(opened))
        if token in {b"[", b"{"}:
            opened.append(token)
    if opened:
        raise Unbalanced("a bracket does not close")
