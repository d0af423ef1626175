"""Labels and annotations as the kubelet writes them into a file (downward API).

One `name="value"` per line, the value quoted as Go does it. Reading is total: a line that
is none is left out, because half a file is better than no gateway.
"""

from __future__ import annotations

import re

_LINE = re.compile(r'([^="\s]+)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)")
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LAST = 0x10FFFF


def read(text: str) -> dict[str, str]:
    """The pairs in a file of the downward API."""
    lines = (_LINE.fullmatch(line) for line in text.split("\n"))
    return {line[1]: _plain(line[2]) for line in lines if line is not None}


def _plain(quoted: str) -> str:
    return _ESCAPE.sub(_char, quoted) if "\\" in quoted else quoted


def _char(escape: re.Match[str]) -> str:
    body = escape[1]
    if body[0] in "xuU" and len(body) > 1:
        code = int(body[1:], 16)
        return chr(code) if code <= _LAST else "\ufffd"
    if len(body) > 1:
        return chr(int(body, 8) & 0xFF)
    return _NAMED.get(body, body)
