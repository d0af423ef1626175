"""The text of one scalar or key in canonical YAML.

A string is plain only if it starts with a letter, `_` or `/`, is made of words of
harmless characters and is none of the words some reader takes for a boolean, a null or
a number. So no rule about numbers, dates or indicators of YAML 1.1 or 1.2 ever applies.
Text of several lines becomes a literal block where that is exact; all else stands in
double quotes with JSON escapes. The rules are part of the emitter's contract: a change
of any byte is a new emitter version.
"""

from __future__ import annotations

import math
import re
from json import encoder

LONGEST_SIMPLE_KEY = 1024

_CHAR = r"[A-Za-z0-9_\-./@+=,;()%$*&!?<>^|~']"
_INNER = rf"(?:{_CHAR}|#|:(?=[A-Za-z0-9_\-./@+=,;()%$*&!?<>^|~':]))"
_OUTER = rf"(?:{_CHAR}|:(?=[A-Za-z0-9_\-./@+=,;()%$*&!?<>^|~':]))"
_PLAIN = re.compile(rf"(?=[A-Za-z_/]){_OUTER}{_INNER}*(?: {_OUTER}{_INNER}*)*")

_TYPED_WORDS = frozenset(
    ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf")
)
_LONGEST_TYPED_WORD = 5

# C1 controls and DEL, line separators, bidirectional controls, byte order mark,
# noncharacters: legal in JSON, but invisible, line-breaking or refused by YAML readers.
_ESCAPED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
_NOT_IN_BLOCK = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]"
)

_FILLED_LINE = re.compile("\n(?!\n)")

_MEMO_ENTRIES = 32_768
_MEMO_TEXT = 96

memo: dict[str, str] = {}
"""Texts of short strings met before; asked directly where every microsecond counts."""


def text(value: str) -> str:
    """`value` on one line: plain where every reader agrees, else double-quoted."""
    known = memo.get(value)
    if known is not None:
        return known
    plain = _PLAIN.fullmatch(value) is not None and not _is_typed_word(value)
    rendered = value if plain else quoted(value)
    if len(value) <= _MEMO_TEXT:
        if len(memo) >= _MEMO_ENTRIES:
            memo.clear()
        memo[value] = rendered
    return rendered


def quoted(value: str) -> str:
    """`value` in double quotes; the escapes of JSON are escapes of YAML as well."""
    rendered = encoder.encode_basestring(value)
    if rendered.isascii() and "\x7f" not in rendered:
        return rendered
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", rendered)


def block(value: str, pad: str) -> str | None:
    """`value` as a literal block whose lines stand at `pad`, or None where that is inexact."""
    if value[0] in " \t\n" or _NOT_IN_BLOCK.search(value) is not None:
        return None
    body = value.rstrip("\n")
    ends = len(value) - len(body)
    lines = _FILLED_LINE.sub(f"\n{pad}", body)
    chomping = "|-" if ends == 0 else "|" if ends == 1 else "|+"
    return f"{chomping}\n{pad}{lines}\n" + "\n" * (ends - 1)


def number(value: float) -> str:
    """A decimal number that readers of YAML 1.1 also take for one."""
    if isinstance(value, int):
        return int.__repr__(value)
    if not math.isfinite(value):
        raise ValueError("a number that is infinite or not a number is no JSON")
    rendered = repr(value)
    mantissa, exponent, power = rendered.partition("e")
    if exponent and "." not in mantissa:
        return f"{mantissa}.0e{power}"
    return rendered


def _is_typed_word(value: str) -> bool:
    return len(value) <= _LONGEST_TYPED_WORD and value.lower() in _TYPED_WORDS
