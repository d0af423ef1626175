"""Reads JSON documents strictly, where a text is JSON.

YAML readers refuse some valid JSON: a character written as two halves (a surrogate pair) is
no character to them. So a text that is JSON from its first to its last character is read as
JSON. Documents follow each other directly or with a line `---` between them. What JSON
allows and an API server would misread is refused: duplicate keys, numbers that no type can
hold, endless nesting.

Pure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from windlass.objects.names import JSON

_GAP = re.compile(r"\s*(?:---[ \t]*(?:\r?\n|\Z)\s*)*")
_OPENING = ("{", "[")
_MOST_CHARS = 63


class JsonRefused(ValueError):
    """The text is JSON that must not be used; the message gives the reason."""


def documents(text: str, *, deepest: int) -> list[JSON] | None:
    """The values in `text`; None where it is not JSON from beginning to end."""
    try:
        values = list(_values(text))
    except json.JSONDecodeError:
        return None
    except RecursionError:
        raise _too_deep(deepest) from None
    if any(_is_deeper(value, deepest) for value in values):
        raise _too_deep(deepest)
    return values or None


def _values(text: str) -> Iterator[JSON]:
    at = _after_gap(text, 0)
    while at < len(text):
        if not text.startswith(_OPENING, at):
            raise json.JSONDecodeError("a map or a list is expected", text, at)
        value, end = _DECODER.raw_decode(text, at)
        yield value
        at = _after_gap(text, end)


def _after_gap(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return gap.end() if gap is not None else at


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise JsonRefused(f"duplicate key: {name[:_MOST_CHARS]!a}")
        members[name] = value
    return members


def _float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _constant(text)


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise JsonRefused("a number has too many digits") from error


def _constant(_: str) -> float:
    raise JsonRefused("numbers must be finite; infinity and NaN are not allowed")


def _is_deeper(value: JSON, deepest: int) -> bool:
    """Whether lists and maps lie in each other more than `deepest` times; without recursion."""
    level: list[JSON] = [value]
    for _ in range(deepest + 1):
        held = [item for item in level if isinstance(item, dict | list)]
        if not held:
            return False
        level = [
            below for item in held for below in (item.values() if isinstance(item, dict) else item)
        ]
    return True


def _too_deep(deepest: int) -> JsonRefused:
    return JsonRefused(f"nesting is deeper than {deepest}")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_float, parse_int=_integer, parse_constant=_constant
)
