"""Reads YAML documents the way kubectl does, into JSON values.

Plain scalars are typed by the rules of the Go reader behind kubectl: booleans also as
yes/no/on/off/y/n, octal with a leading zero, never a date, never base 60. What could
surprise is refused with the line it stands on: tags, duplicate keys, numbers that JSON
lacks, nesting over 256. The loader builds from events, so no YAML feature can construct
anything but plain values.

`read` is for what machines wrote: one document, no anchors, no aliases, no merge keys.
`read_all` is for what people write: many documents, aliases copied out up to a bound, so
that a few lines cannot become gigabytes. A text that is JSON is read as JSON there, because
JSON can write characters that YAML readers refuse.

Pure.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import yaml

from windlass.objects import json_reader
from windlass.objects.names import JSON

LARGEST_BYTES = 2 * 1024 * 1024
DEEPEST = 256
MOST_NODES = 500_000
"""How many values aliases may add to a text."""

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
_MERGE_KEY = object()


class NotReadable(ValueError):
    """The text is not one plain YAML document; the message says where and why."""


def read(content: bytes, *, max_bytes: int = LARGEST_BYTES) -> JSON:
    """The value of the only document in `content`; NotReadable (a ValueError) otherwise."""
    return _built(_Builder(), content, max_bytes).document()


def read_all(content: bytes, *, max_bytes: int = LARGEST_BYTES) -> list[JSON]:
    """The values of all documents in `content`, with aliases and merge keys worked out."""
    _check_size(content, max_bytes)
    try:
        found = json_reader.documents(content.decode("utf-8"), deepest=DEEPEST)
    except UnicodeDecodeError:
        found = None
    except json_reader.JsonRefused as cause:
        raise NotReadable(str(cause)) from cause
    return found if found is not None else _built(_Expander(), content, max_bytes).documents


def _check_size(content: bytes, max_bytes: int) -> None:
    if len(content) > max_bytes:
        raise NotReadable(f"the file is too large: {len(content)} bytes, limit {max_bytes}")


def _built(builder: _Builder, content: bytes, max_bytes: int) -> _Builder:
    _check_size(content, max_bytes)
    try:
        for event in _events(content):
            builder.take(event)
    except (yaml.YAMLError, UnicodeDecodeError) as cause:
        raise NotReadable(f"invalid YAML: {_where(cause)}") from cause
    return builder


def _events(content: bytes) -> Iterator[Any]:
    yield from yaml.parse(content.decode("utf-8"), Loader=yaml.CSafeLoader)


def _where(cause: Exception) -> str:
    mark = getattr(cause, "problem_mark", None)
    problem = getattr(cause, "problem", None) or type(cause).__name__
    return f"{problem} (line {mark.line + 1})" if mark is not None else str(problem)


class _Frame:
    """An open list or map; `key` waits for its value, `merged` for the end of the map."""

    __slots__ = ("key", "merged", "value")

    def __init__(self, value: list[JSON] | dict[str, JSON]) -> None:
        self.value = value
        self.key: object = _NO_KEY
        self.merged: list[JSON] = []


class _Builder:
    """Puts values together from events; the stack of open containers bounds the depth."""

    def __init__(self) -> None:
        self._open: list[_Frame] = []
        self.documents: list[JSON] = []

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._decorate(event, value := _typed(event) if event.implicit[0] else event.value)
            self._add(event, value)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            value = {} if isinstance(event, yaml.MappingStartEvent) else []
            self._decorate(event, value)
            self._push(event, value)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._close(event)
        elif isinstance(event, yaml.AliasEvent):
            self._add(event, self._aliased(event))

    def document(self) -> JSON:
        if len(self.documents) != 1:
            raise NotReadable(f"expected one document, found {len(self.documents)}")
        return self.documents[0]

    def _decorate(self, event: Any, value: JSON) -> None:
        del value
        _refuse_tag(event)
        if event.anchor is not None:
            raise _refusal(event, "anchors are not allowed")

    def _aliased(self, event: Any) -> JSON:
        raise _refusal(event, "aliases are not allowed")

    def _merge(self, event: Any, frame: _Frame) -> None:
        del frame
        raise _refusal(event, "merge keys are not allowed")

    def _push(self, event: Any, value: list[JSON] | dict[str, JSON]) -> None:
        if len(self._open) >= DEEPEST:
            raise _refusal(event, f"nesting is deeper than {DEEPEST}")
        self._add(event, value)
        self._open.append(_Frame(value))

    def _close(self, event: Any) -> None:
        del event
        self._open.pop()

    def _add(self, event: Any, value: JSON) -> None:
        if not self._open:
            self.documents.append(value)
            return
        frame = self._open[-1]
        if isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.key is _NO_KEY and _is_merge(event):
            self._merge(event, frame)
        elif frame.key is _NO_KEY:
            frame.key = _key(event, value, frame.value)
        elif frame.key is _MERGE_KEY:
            frame.merged.append(value)
            frame.key = _NO_KEY
        else:
            frame.value[str(frame.key)] = value
            frame.key = _NO_KEY


class _Expander(_Builder):
    """Works aliases and merge keys out, up to MOST_NODES values."""

    def __init__(self) -> None:
        super().__init__()
        self._anchored: dict[str, JSON] = {}
        self._nodes = 0

    def _decorate(self, event: Any, value: JSON) -> None:
        _refuse_tag(event)
        if event.anchor is not None:
            self._anchored[event.anchor] = value

    def _aliased(self, event: Any) -> JSON:
        if event.anchor not in self._anchored:
            raise _refusal(event, "undefined alias: no anchor of this name before it")
        meant = self._anchored[event.anchor]
        if any(frame.value is meant for frame in self._open):
            raise _refusal(event, "an alias must not refer to a value that contains it")
        nodes, depth = _measured(meant)
        if len(self._open) + depth > DEEPEST:
            raise _refusal(event, f"nesting is deeper than {DEEPEST}")
        self._nodes += nodes
        if self._nodes > MOST_NODES:
            raise _refusal(event, f"aliases add more than {MOST_NODES} values")
        return copy.deepcopy(meant)

    def _merge(self, event: Any, frame: _Frame) -> None:
        del event
        frame.key = _MERGE_KEY

    def _close(self, event: Any) -> None:
        frame = self._open.pop()
        for value in frame.merged:
            for source in value if isinstance(value, list) else [value]:
                if not isinstance(source, dict) or not isinstance(frame.value, dict):
                    raise _refusal(event, "only maps can be merged into a map")
                # Of several the first wins, and what stands in the map itself wins over all.
                frame.value.update({k: v for k, v in source.items() if k not in frame.value})


def _measured(value: JSON) -> tuple[int, int]:
    """How many values there are in one, and how deep they lie."""
    if not isinstance(value, dict | list) or not value:
        return 1, isinstance(value, dict | list)
    inner = [_measured(item) for item in (value.values() if isinstance(value, dict) else value)]
    return 1 + sum(nodes for nodes, _ in inner), 1 + max(depth for _, depth in inner)


def _is_merge(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.value == "<<" and bool(event.implicit[0])


def _key(event: Any, value: JSON, known: dict[str, JSON]) -> str:
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str):
        raise _refusal(event, "keys must be strings")
    if value in known:
        raise _refusal(event, "duplicate key")
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
        raise _refusal(event, "numbers must be finite; infinity and NaN are not allowed")
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
        raise _refusal(event, "numbers must be finite; infinity and NaN are not allowed")
    return value


def _refuse_tag(event: Any) -> None:
    if event.tag is not None:
        raise _refusal(event, "tags are not allowed")


def _refusal(event: Any, rule: str) -> NotReadable:
    return NotReadable(f"{rule} (line {event.start_mark.line + 1})")
