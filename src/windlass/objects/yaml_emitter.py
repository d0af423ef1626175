"""Canonical YAML: one JSON value has exactly one text (emitter `e1`).

UTF-8, LF, two blanks of indentation, dashes at the column of the parent key, keys in
code point order (apiVersion, kind and metadata first at the top), no markers, comments,
anchors, tags or folding. Readers of YAML 1.1 and 1.2 give back the value that went in.
The bytes are a contract: Git blobs are compared by them, so a change of any byte must
come with a new `EMITTER`.

The text of one scalar or key in canonical YAML.

A string is plain only if it starts with a letter, `_` or `/`, is made of words of
harmless characters and is none of the words some reader takes for a boolean, a null or
a number. So no rule about numbers, dates or indicators of YAML 1.1 or 1.2 ever applies.
Text of several lines becomes a literal block where that is exact; all else stands in
double quotes with JSON escapes. The rules are part of the emitter's contract: a change
of any byte is a new emitter version.

Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from json import encoder

from windlass.objects.names import JSON, Object

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

scalar_memo: dict[str, str] = {}
"""Texts of short strings met before; asked directly where every microsecond counts."""


def plain_or_quoted(value: str) -> str:
    """`value` on one line: plain where every reader agrees, else double-quoted."""
    known = scalar_memo.get(value)
    if known is not None:
        return known
    plain = _PLAIN.fullmatch(value) is not None and not _is_typed_word(value)
    rendered = value if plain else quote(value)
    if len(value) <= _MEMO_TEXT:
        if len(scalar_memo) >= _MEMO_ENTRIES:
            scalar_memo.clear()
        scalar_memo[value] = rendered
    return rendered


def quote(value: str) -> str:
    """`value` in double quotes; the escapes of JSON are escapes of YAML as well."""
    rendered = encoder.encode_basestring(value)
    if rendered.isascii() and "\x7f" not in rendered:
        return rendered
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", rendered)


def block_text(value: str, pad: str) -> str | None:
    """`value` as a literal block whose lines stand at `pad`, or None where that is inexact."""
    if value[0] in " \t\n" or _NOT_IN_BLOCK.search(value) is not None:
        return None
    body = value.rstrip("\n")
    ends = len(value) - len(body)
    lines = _FILLED_LINE.sub(f"\n{pad}", body)
    chomping = "|-" if ends == 0 else "|" if ends == 1 else "|+"
    return f"{chomping}\n{pad}{lines}\n" + "\n" * (ends - 1)


def number_text(value: float) -> str:
    """A decimal number that readers of YAML 1.1 also take for one."""
    if isinstance(value, int):
        return int.__repr__(value)
    if not math.isfinite(value):
        raise ValueError("infinite numbers and NaN are not valid JSON")
    rendered = repr(value)
    mantissa, exponent, power = rendered.partition("e")
    if exponent and "." not in mantissa:
        return f"{mantissa}.0e{power}"
    return rendered


def _is_typed_word(value: str) -> bool:
    return len(value) <= _LONGEST_TYPED_WORD and value.lower() in _TYPED_WORDS


EMITTER = "e1"

_LEADING_KEYS = ("apiVersion", "kind", "metadata")
_WORDS = {None: "null", True: "true", False: "false"}


def emit(value: JSON) -> bytes:
    """The canonical bytes of `value`; ValueError or TypeError where it is no JSON value."""
    out: list[str] = []
    if type(value) is dict and value:
        _emit_map(value, _top_order(value), "", "", out)
    elif type(value) is list and value:
        _emit_list(value, "", "", out)
    else:
        out.append(_leaf(value, "  "))
    return "".join(out).encode()


def _top_order(value: Object) -> Iterable[str]:
    leading = [key for key in _LEADING_KEYS if key in value]
    return leading + [key for key in sorted(value) if key not in _LEADING_KEYS]


def _emit_map(value: Object, keys: Iterable[str], first: str, pad: str, out: list[str]) -> None:
    """The rows of `value` at `pad`; `first` stands in place of `pad` on the first row."""
    known = scalar_memo
    for key in keys:
        name = known.get(key) or plain_or_quoted(key)
        item = value[key]
        if len(name) > LONGEST_SIMPLE_KEY:
            out.append(f"{first}? {name}\n")
            _emit_item(item, f"{pad}: ", pad, out)
        elif type(item) is str and "\n" not in item:
            out.append(f"{first}{name}: {known.get(item) or plain_or_quoted(item)}\n")
        elif item and (type(item) is dict or type(item) is list):
            out.append(f"{first}{name}:\n")
            _emit_container(item, pad, out)
        else:
            out.append(f"{first}{name}: {_leaf(item, pad + '  ')}")
        first = pad


def _emit_container(item: Object | list[JSON], pad: str, out: list[str]) -> None:
    """The rows below a key at `pad`: dashes at its column, keys one step deeper."""
    if isinstance(item, dict):
        deeper = pad + "  "
        _emit_map(item, sorted(item), deeper, deeper, out)
    else:
        _emit_list(item, pad, pad, out)


def _emit_list(items: list[JSON], first: str, pad: str, out: list[str]) -> None:
    for item in items:
        _emit_item(item, f"{first}- ", pad, out)
        first = pad


def _emit_item(item: JSON, head: str, pad: str, out: list[str]) -> None:
    """`item` behind a two-column `head` (a dash, or the colon of an explicit key)."""
    kind = type(item)
    if kind is dict and item:
        _emit_map(item, sorted(item), head, pad + "  ", out)
    elif kind is list and item:
        _emit_list(item, head, pad + "  ", out)
    else:
        out.append(head + _leaf(item, pad + "  "))


def _leaf(item: JSON, pad: str) -> str:
    """A scalar or an empty container with its line end; a block's lines stand at `pad`."""
    if isinstance(item, str):
        lines = block_text(item, pad) if "\n" in item else None
        return lines if lines is not None else plain_or_quoted(item) + "\n"
    if item is None or item is True or item is False:
        return _WORDS[item] + "\n"
    if isinstance(item, int | float):
        return number_text(item) + "\n"
    if isinstance(item, dict | list) and not item:
        return "{}\n" if isinstance(item, dict) else "[]\n"
    raise TypeError(f"canonical YAML holds JSON values only, not {type(item).__name__}")
