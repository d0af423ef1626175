"""JSON changes to synced files: patches of a profile, `systemName` and normalized fields.

Patches apply in list order, the entries of one `set` sorted by the text of their paths, so that a
container comes before its children. A value that is valid JSON is written unchanged, any other as a
string.

Normalization adapts shared files to one gateway: its `systemName`, and the fields of
`spec.normalize`. Both apply only to files called `config.json`, at any depth. Neither adds a
member. A string stays a string; numbers and booleans keep their type if the new text is such a
value; objects, arrays and null at a field's path are not changed and reported as a warning, because
a path may mean something else in another file.

Pure.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from windlass.gateways.render import json_edit, json_tokens, template
from windlass.gateways.render.json_edit import APPEND, JsonPath, SetValue, Splice
from windlass.gateways.render.json_tokens import NUMBER, STRING, WORD, InvalidJson, JsonToken
from windlass.gateways.render.template import TemplateVariables
from windlass.gateways.tree import globs
from windlass.gateways.tree.globs import Glob

_JSON_SPACE = " \t\r\n"


@dataclass(frozen=True, slots=True)
class FilePatch:
    """One entry of `patches`: `file` is a glob below the destination, empty for a mapped file."""

    file: str
    set: Mapping[str, str] = field(default_factory=dict)


class MappingPatches:
    """The patches of one mapping; raises ValueError for a malformed glob or path."""

    def __init__(self, patches: Iterable[FilePatch]) -> None:
        self._patches = tuple((patch, _compile_patch(patch)) for patch in patches)

    def for_file(self, name: str) -> tuple[FilePatch, ...]:
        """The patches for the file `name` below the destination; empty is a mapped file itself."""
        return tuple(patch for patch, glob in self._patches if _is_match(glob, name))


def apply_patches(content: bytes, patches: Iterable[FilePatch]) -> bytes:
    """`content` after `patches`; raises `InvalidJson` if it is not JSON or lacks a container."""
    return json_edit.apply_edits(content, _patch_edits(patches))


def encode_value(text: str) -> bytes:
    """`text` as JSON: unchanged if it is valid JSON, else as a string."""
    try:
        raw = text.strip(_JSON_SPACE).encode("utf-8")
        if not raw.startswith(json_tokens.BOM):
            json_tokens.check_json(raw)
            return raw
    except (InvalidJson, UnicodeEncodeError):
        pass
    return json_edit.encode_string(text)


def _compile_patch(patch: FilePatch) -> Glob | None:
    for path in patch.set:
        template.reject_template(path)
        json_edit.parse_path(path)
    return globs.compile_glob(patch.file) if patch.file else None


def _is_match(glob: Glob | None, name: str) -> bool:
    return not name if glob is None else bool(name) and glob.matches(name)


def _patch_edits(patches: Iterable[FilePatch]) -> Iterator[SetValue]:
    for patch in patches:
        for path, value in sorted(patch.set.items()):
            yield SetValue(json_edit.parse_path(path), encode_value(value))


CONFIG_FILE = "config.json"
SYSTEM_NAME = "systemName"

SystemNameScope: TypeAlias = Literal["AnyDepth", "TopLevel"]


@dataclass(frozen=True, slots=True)
class FieldRule:
    """One entry of `normalize.fields`: the path to write to, and the template of the value."""

    json_path: str
    value_template: str


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A field with its rendered value."""

    path: JsonPath
    text: str


class NormalizeResult(NamedTuple):
    """New content, the number of values set in it, and warnings about values not changed."""

    content: bytes
    replaced: int
    warnings: tuple[str, ...] = ()


def is_config_file(path: str) -> bool:
    """Whether the file at `path` is normalized."""
    return posixpath.basename(path) == CONFIG_FILE


def choose_system_name(annotation: str, name_template: str, variables: TemplateVariables) -> str:
    """The systemName of a gateway: the annotation, else the template, else the gateway's name."""
    if annotation:
        return annotation
    if name_template:
        return template.render(name_template, variables)
    return variables.value("GatewayName")


def resolve_fields(
    fields: Iterable[FieldRule], variables: TemplateVariables
) -> tuple[FieldValue, ...]:
    """`fields` for one gateway; raises `TemplateError`, or ValueError for an invalid path."""
    return tuple(
        FieldValue(
            parse_field_path(rule.json_path), template.render(rule.value_template, variables)
        )
        for rule in fields
    )


def parse_field_path(text: str) -> JsonPath:
    """The path of a field; raises ValueError for an invalid or an appending path."""
    template.reject_template(text)
    path = json_edit.parse_path(text)
    if path[-1] == APPEND:
        raise ValueError(f"invalid path {text!r}: normalize fields cannot append")
    return path


def set_system_name(content: bytes, name: str, scope: SystemNameScope) -> NormalizeResult:
    """`content` with `name` as the string value of its systemName members."""
    members = json_edit.find_members(content, SYSTEM_NAME, top_level=scope == "TopLevel")
    strings = [token for token in members if token.kind == STRING]
    splices = _changed_splices(
        content, ((token, json_edit.encode_string(name)) for token in strings)
    )
    return NormalizeResult(json_edit.apply_splices(content, splices), len(strings))


def set_fields(content: bytes, fields: Iterable[FieldValue]) -> NormalizeResult:
    """`content` with every field set whose path exists; for equal paths the last field counts."""
    values = {field.path: field.text for field in fields}
    spans = json_edit.find_values(content, values)
    changes = []
    warnings = []
    for path, token in spans.items():
        raw = _encode_like(content, token, values[path])
        if raw is None:
            shown = json_edit.format_path(path)
            warnings.append(f"{shown} is not a string, number or boolean; not changed")
        else:
            changes.append((token, raw))
    result = json_edit.apply_splices(content, _changed_splices(content, changes))
    return NormalizeResult(result, len(changes), tuple(warnings))


def _changed_splices(content: bytes, changes: Iterable[tuple[JsonToken, bytes]]) -> list[Splice]:
    return [
        (token.start, token.end, raw)
        for token, raw in changes
        if not json_edit.is_same_value(content[token.start : token.end], raw)
    ]


def _encode_like(content: bytes, token: JsonToken, text: str) -> bytes | None:
    """`text` encoded in the type of the value at `token`; None if that must not be replaced."""
    if token.kind == NUMBER and _is_number(text):
        return text.encode("ascii")
    if token.kind == WORD:
        if content[token.start : token.end] == b"null":
            return None
        if text in ("true", "false"):
            return text.encode("ascii")
    return json_edit.encode_string(text) if token.kind in (STRING, NUMBER, WORD) else None


def _is_number(text: str) -> bool:
    try:
        first = next(json_tokens.tokenize(text.encode("utf-8", "replace")))
    except InvalidJson:
        return False
    return (first.kind, first.start, first.end) == (NUMBER, 0, len(text))
