"""Patches of a profile: values written into JSON files on their way to a gateway.

Patches apply in list order, the entries of one `set` in the order of their paths' text, so
that a parent comes before what is put into it. A value that is JSON is written as it is
spelled, any other as a string.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from windlass.gateways.decide import globs, json_edits, json_path, json_spans, json_tokens, template
from windlass.gateways.decide.globs import Glob
from windlass.gateways.decide.json_edits import Put
from windlass.gateways.decide.json_tokens import JsonRefused

_JSON_SPACE = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Patch:
    """One entry of `patches`: `file` is a glob below the destination, empty for a mapped file."""

    file: str
    set: Mapping[str, str] = field(default_factory=dict)


class Patches:
    """The patches of one mapping; ValueError where a glob or path of theirs is malformed."""

    def __init__(self, patches: Iterable[Patch]) -> None:
        self._patches = tuple((patch, _checked(patch)) for patch in patches)

    def of(self, name: str) -> tuple[Patch, ...]:
        """Those for the file `name` below the destination; empty is the mapped file itself."""
        return tuple(patch for patch, glob in self._patches if _means(glob, name))


def patched(content: bytes, patches: Iterable[Patch]) -> bytes:
    """`content` after `patches`; JsonRefused where it is no JSON or lacks a parent."""
    return json_edits.edited(content, _puts(patches))


def raw_value(text: str) -> bytes:
    """`text` as JSON: itself if it is that already, else as a string."""
    try:
        raw = text.strip(_JSON_SPACE).encode("utf-8")
        if not raw.startswith(json_tokens.BOM):
            json_tokens.check(raw)
            return raw
    except (JsonRefused, UnicodeEncodeError):
        pass
    return json_spans.text(text)


def _checked(patch: Patch) -> Glob | None:
    for path in patch.set:
        template.refuse(path)
        json_path.parsed(path)
    return globs.compiled(patch.file) if patch.file else None


def _means(glob: Glob | None, name: str) -> bool:
    return not name if glob is None else bool(name) and glob.matches(name)


def _puts(patches: Iterable[Patch]) -> Iterator[Put]:
    for patch in patches:
        for path, value in sorted(patch.set.items()):
            yield Put(json_path.parsed(path), raw_value(value))
