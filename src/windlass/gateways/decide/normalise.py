"""Makes shared files fit one gateway: its `systemName`, and fields that a spec names.

Both concern files called `config.json`, at any depth, and nothing else. Neither adds
anything: a member that is not there stays absent. A string stays a string; numbers and
booleans keep their type where the new text is such a value; objects, arrays and null where
a field's path leads are left alone with a warning, for a path that fits one file may hit
something else in another.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from windlass.gateways.decide import json_path, json_spans, json_tokens, template
from windlass.gateways.decide.json_path import APPEND, Path
from windlass.gateways.decide.json_spans import Splice
from windlass.gateways.decide.json_tokens import NUMBER, STRING, WORD, JsonRefused, Token
from windlass.gateways.decide.variables import Variables

CONFIG_FILE = "config.json"
SYSTEM_NAME = "systemName"

Scope: TypeAlias = Literal["AnyDepth", "TopLevel"]


@dataclass(frozen=True, slots=True)
class Field:
    """One entry of `normalize.fields`: where to write, and a template of what."""

    json_path: str
    value_template: str


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A field whose value is known."""

    path: Path
    text: str


class Normalised(NamedTuple):
    """New content, how many places were found in it, and what was left alone."""

    content: bytes
    found: int
    warnings: tuple[str, ...] = ()


def is_config(path: str) -> bool:
    """Whether the file at `path` is one that gets normalised."""
    return posixpath.basename(path) == CONFIG_FILE


def system_name(annotation: str, name_template: str, variables: Variables) -> str:
    """The systemName of a gateway: what its pod says, else its template, else its own name."""
    if annotation:
        return annotation
    if name_template:
        return template.render(name_template, variables)
    return variables.value("GatewayName")


def resolved(fields: Iterable[Field], variables: Variables) -> tuple[FieldValue, ...]:
    """`fields` for one gateway; TemplateError, or ValueError for a path that cannot be one."""
    return tuple(
        FieldValue(field_path(one.json_path), template.render(one.value_template, variables))
        for one in fields
    )


def field_path(text: str) -> Path:
    """The path of a field; ValueError where it spells none, or one that can never exist."""
    template.refuse(text)
    path = json_path.parsed(text)
    if path[-1] == APPEND:
        raise ValueError(f"the path {text!r} appends: a field replaces a value that is there")
    return path


def with_system_name(content: bytes, name: str, scope: Scope) -> Normalised:
    """`content` with `name` as the string value of its systemName members."""
    members = json_spans.member_spans(content, SYSTEM_NAME, top_level=scope == "TopLevel")
    strings = [token for token in members if token.kind == STRING]
    splices = _splices(content, ((token, json_spans.text(name)) for token in strings))
    return Normalised(json_spans.spliced(content, splices), len(strings))


def with_fields(content: bytes, fields: Iterable[FieldValue]) -> Normalised:
    """`content` with every field written whose path exists; of equal paths the last counts."""
    values = {field.path: field.text for field in fields}
    spans = json_spans.value_spans(content, values)
    changes = []
    warnings = []
    for path, token in spans.items():
        raw = _typed(content, token, values[path])
        if raw is None:
            shown = json_path.shown(path)
            warnings.append(f"{shown} is no string, number or boolean and was left alone")
        else:
            changes.append((token, raw))
    result = json_spans.spliced(content, _splices(content, changes))
    return Normalised(result, len(changes), tuple(warnings))


def _splices(content: bytes, changes: Iterable[tuple[Token, bytes]]) -> list[Splice]:
    return [
        (token.start, token.end, raw)
        for token, raw in changes
        if not json_spans.same(content[token.start : token.end], raw)
    ]


def _typed(content: bytes, token: Token, text: str) -> bytes | None:
    """`text` in the type of what stands at `token`; None where that is not to be replaced."""
    if token.kind == NUMBER and _is_number(text):
        return text.encode("ascii")
    if token.kind == WORD:
        if content[token.start : token.end] == b"null":
            return None
        if text in ("true", "false"):
            return text.encode("ascii")
    return json_spans.text(text) if token.kind in (STRING, NUMBER, WORD) else None


def _is_number(text: str) -> bool:
    try:
        first = next(json_tokens.tokens(text.encode("utf-8", "replace")))
    except JsonRefused:
        return False
    return (first.kind, first.start, first.end) == (NUMBER, 0, len(text))
