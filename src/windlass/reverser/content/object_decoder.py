"""Decodes the JSON of the API server into an object, or refuses it with a clear reason.

An object is refused if it could not be mirrored faithfully: bad UTF-8, lone surrogates,
nesting over 256, integers over 64 bit. It still counts as live, so `scan_name` finds its
name and namespace by scanning the bytes, whatever is wrong with the rest.

Pure.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import orjson

from windlass.objects.names import JSON, Key, Object

MAX_DEPTH = 256

_MIN_INTEGER = -(2**63)
_MAX_INTEGER = 2**64 - 1
_MAX_INTEGER_DIGITS = 20
# Every digit to "0", all else to a blank: finding a long run of digits is then a plain
# substring search, 20 times faster than a regular expression on each event.
_DIGITS = bytes(ord("0") if chr(code).isdecimal() and code < 128 else 32 for code in range(256))
_LONG_RUN = b"0" * 19
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]', re.DOTALL)


class Undecodable(ValueError):
    """The object cannot be mirrored; the message names the rule, never the content."""


def decode_object(raw: bytes) -> Object:
    """The object in `raw`; raises Undecodable if it is none or breaks a limit."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as cause:
        raise Undecodable(_error_class(str(cause))) from cause
    # The depth of few brackets need not be measured.
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _depth_exceeds(value, MAX_DEPTH):
        raise Undecodable(f"nesting is deeper than {MAX_DEPTH}")
    if _LONG_RUN in raw.translate(_DIGITS):
        _refuse_long_integers(raw)
    if not isinstance(value, dict):
        raise Undecodable("not an object")
    return value


@dataclass(slots=True)
class _Scan:
    """The state of the scanner between two tokens."""

    depth: int = 0  # open brackets
    inside_metadata: bool = False  # whether the open object at depth 2 is the top-level metadata
    key: bytes | None = None  # the key whose value comes next; None before a key
    last: bytes | None = None  # the last string, without its quotes


def scan_name(raw: bytes) -> Key | None:
    """Namespace and name from the top-level metadata of a broken object; None without a name."""
    fields: dict[bytes, str] = {}
    scan = _Scan()
    for match in _TOKEN.finditer(raw):
        _advance(scan, match[0], fields)
    name = fields.get(b"name")
    return Key(fields.get(b"namespace", ""), name) if name else None


def _advance(scan: _Scan, token: bytes, fields: dict[bytes, str]) -> None:
    """Consume one token; the metadata's name and namespace are stored in `fields`."""
    if token in (b"{", b"["):
        if scan.depth == 1:
            scan.inside_metadata = scan.key == b"metadata" and token == b"{"
        scan.depth += 1
        scan.key = None
    elif token in (b"}", b"]"):
        scan.depth -= 1
        scan.key = None
    elif token == b":":
        scan.key = scan.last
    elif token == b",":
        scan.key = None
    else:
        scan.last = token[1:-1]
        if scan.depth == 2 and scan.inside_metadata and scan.key in (b"name", b"namespace"):
            fields.setdefault(scan.key, _token_text(token))


def _token_text(token: bytes) -> str:
    try:
        return str(orjson.loads(token))
    except orjson.JSONDecodeError:
        return token[1:-1].decode("utf-8", "replace")


def _error_class(problem: str) -> str:
    """The rule that is broken; the parser's own message could quote the content."""
    if "surrogate" in problem:
        return "invalid UTF-8 or a lone surrogate"
    if "depth limit" in problem:
        return f"nesting is deeper than {MAX_DEPTH}"
    if "infinity" in problem:
        return "a number is too large"
    return "invalid JSON"


def _refuse_long_integers(raw: bytes) -> None:
    json.loads(raw, parse_int=_checked_integer)


def _checked_integer(text: str) -> int:
    if len(text) <= _MAX_INTEGER_DIGITS:
        value = int(text)
        if _MIN_INTEGER <= value <= _MAX_INTEGER:
            return value
    raise Undecodable("an integer exceeds 64 bits")


def _depth_exceeds(value: JSON, limit: int) -> bool:
    try:
        orjson.dumps(value)  # its own limit is 254 levels, so what it accepts is shallow
    except TypeError:
        return _depth(value, limit) > limit
    return False


def _depth(value: JSON, limit: int) -> int:
    """Levels of nesting, counted to one above `limit`; without recursion, which has limits."""
    level, depth = [value], 0
    while depth <= limit:
        level = [item for item in level if isinstance(item, dict | list)]
        if not level:
            break
        depth += 1
        level = [
            child for item in level for child in (item.values() if isinstance(item, dict) else item)
        ]
    return depth
