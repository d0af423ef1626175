"""Reads one YAML document the way kubectl does, into JSON values.

Plain scalars are typed by the rules of the Go reader behind kubectl: booleans also as
yes/no/on/off/y/n, octal with a leading zero, never a date, never base 60. What could
surprise is refused with the line it stands on: a second document, anchors and aliases,
tags, merge keys, duplicate keys, numbers that JSON lacks, nesting over 256. The loader
builds from events, so no YAML feature can construct anything but plain values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from windlass.objects.json import JSON

LARGEST_BYTES = 2 * 1024 * 1024
DEEPEST = 256

_BOOLEANS = {
    form: value
    for value, words in ((True, ("y", "yes", "on", "true")), (False, ("n", "no", "off", "false")))
    for word in words
    for form in (word, word.capitalize(), word.upper())
}
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)"
    r"|0[oO]?(?P<octal>[0-7]+)|(?P<decimal>0|[1-9][0-9]*))"
)
_BASES = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_JSON = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_NUMBER_START = frozenset("+-.0123456789")
_NO_KEY = object()


class NotReadable(ValueError):
    """The text is not one plain YAML document; the message says where and why."""


def read(content: bytes, *, max_bytes: int = LARGEST_BYTES) -> JSON:
    """The value of the only document in `content`; NotReadable (a ValueError) otherwise."""
    if len(content) > max_bytes:
        raise NotReadable(f"the file has {len(content)} bytes, more than {max_bytes}")
    builder = _Builder()
    try:
        for event in _events(content):
            builder.take(event)
    except (yaml.YAMLError, UnicodeDecodeError) as cause:
        raise NotReadable(f"not YAML: {_where(cause)}") from cause
    return builder.document()


def _events(content: bytes) -> Iterator[Any]:
    yield from yaml.parse(content.decode("utf-8"), Loader=yaml.CSafeLoader)


def _where(cause: Exception) -> str:
    mark = getattr(cause, "problem_mark", None)
    problem = getattr(cause, "problem", None) or type(cause).__name__
    return f"{problem} (line {mark.line + 1})" if mark is not None else str(problem)


class _Frame:
    """An open list or map; `key` waits for its value."""

    __slots__ = ("key", "value")

    def __init__(self, value: list[JSON] | dict[str, JSON]) -> None:
        self.value = value
        self.key: object = _NO_KEY


class _Builder:
    """Puts values together from events; the stack of open containers bounds the depth."""

    def __init__(self) -> None:
        self._open: list[_Frame] = []
        self._documents: list[JSON] = []

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            _refuse_decorations(event)
            self._add(event, _typed(event) if event.implicit[0] else event.value)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            _refuse_decorations(event)
            self._push(event, {} if isinstance(event, yaml.MappingStartEvent) else [])
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._open.pop()
        elif isinstance(event, yaml.AliasEvent):
            raise _refusal(event, "aliases are not allowed")

    def document(self) -> JSON:
        if len(self._documents) != 1:
            raise NotReadable(f"one document is expected, found {len(self._documents)}")
        return self._documents[0]

    def _push(self, event: Any, value: list[JSON] | dict[str, JSON]) -> None:
        if len(self._open) >= DEEPEST:
            raise _refusal(event, f"nesting is deeper than {DEEPEST}")
        self._add(event, value)
        self._open.append(_Frame(value))

    def _add(self, event: Any, value: JSON) -> None:
        if not self._open:
            self._documents.append(value)
            return
        frame = self._open[-1]
        if isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.key is _NO_KEY:
            frame.key = _key(event, value, frame.value)
        else:
            frame.value[str(frame.key)] = value
            frame.key = _NO_KEY


def _key(event: Any, value: JSON, known: dict[str, JSON]) -> str:
    if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
        raise _refusal(event, "merge keys are not allowed")
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str):
        raise _refusal(event, "a key must be text")
    if value in known:
        raise _refusal(event, "a key stands twice")
    return value


def _typed(event: Any) -> JSON:
    text: str = event.value
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text[0] not in _NUMBER_START:
        return text
    if _NO_JSON.fullmatch(text):
        raise _refusal(event, "JSON has no such number")
    return _number(event, text)


def _number(event: Any, text: str) -> JSON:
    digits = text.replace("_", "")
    try:
        if (found := _INTEGER.fullmatch(digits)) is not None:
            base = next(name for name in _BASES if found[name] is not None)
            return int(found["sign"] + found[base], _BASES[base])
        if _FLOAT.fullmatch(digits) is None:
            return text
        value = float(digits)
    except ValueError as cause:
        raise _refusal(event, "the number has too many digits") from cause
    if value in (float("inf"), float("-inf")):
        raise _refusal(event, "JSON has no such number")
    return value


def _refuse_decorations(event: Any) -> None:
    if event.anchor is not None:
        raise _refusal(event, "anchors are not allowed")
    if event.tag is not None:
        raise _refusal(event, "tags are not allowed")


def _refusal(event: Any, rule: str) -> NotReadable:
    return NotReadable(f"{rule} (line {event.start_mark.line + 1})")
