"""Stabilizes the values that a chart generates with every render.

A chart is rendered twice with the same inputs; what differs was generated. `kept` is the
output that was applied last, of whatever inputs.

| What differs | Final value |
|---|---|
| a key of a Secret | that of the kept output, else that of the first render |
| a text that contains such values (URL, script) | the text with the final values in it |
| a checksum on a pod template | a digest of the Secrets and ConfigMaps behind it, see below |
| anything else | that of the first render, and it is listed |

So a value stays for as long as its Secret has the key, a value that the project sets wins
because both renders have it, and pods restart if and only if their configuration changed.
A checksum cannot be computed as helm does: a chart renders the template once more for it,
and that draws values which no object has. So it covers the Secrets and ConfigMaps that the
pods name, and those in templates of their own chart that generate something. As long as these
are the kept ones, the kept checksum stays: one that helm computed restarts nothing either.

Pure.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from windlass.environments.bundle import field_rules, kinds, labeling, shapes
from windlass.environments.render import manifests
from windlass.environments.render.manifests import ManifestObject
from windlass.objects import yaml_emitter
from windlass.objects.names import JSON, Object

_SECRET = ("", "Secret")
_CONFIGURATION = (_SECRET, ("", "ConfigMap"))
_VALUES = ("data", "stringData")
_DIGEST = re.compile(r"[0-9a-f]{32,128}")
_WORD = re.compile(rb"[A-Za-z0-9]+")
_ARMOR = b"-----BEGIN "
_MOST_NOTES = 20
# Charts are written by strangers: how much is searched for how many values has a bound.
_MOST_SEARCHED_BYTES = 1 << 20
_MOST_SEARCHED_FOR = 64
_LEAST_SEARCHED_CHARS = 8

_Identity = tuple[str, str, str]
_Path = tuple[str | int, ...]
_Objects = Mapping[_Identity, ManifestObject]


@dataclass(frozen=True, slots=True)
class StableOutput:
    """The output that is applied and kept, and what in it will differ next time."""

    output: bytes
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of a Secret that both renders have with different values."""

    secret: _Identity
    name: str
    first: bytes
    second: bytes
    kept: bytes | None


@dataclass(frozen=True, slots=True)
class _Generated:
    """One generated value as the renders have it, and as it is used."""

    first: bytes
    second: bytes
    final: bytes
    is_kept: bool


def stabilize(first: bytes, second: bytes, kept: bytes) -> StableOutput:
    """The final output of a chart; RenderRefused where a render is not a list of objects."""
    if first == second:
        return StableOutput(first)
    rendered, again = (
        manifests.parse_chart_output(first),
        _by_identity(manifests.parse_chart_output(second)),
    )
    last = manifests.parse_readable_output(kept)
    keys = _stable_keys(_keys(rendered, again, _by_identity(last)))
    comparison = _Comparison(keys)
    final = [comparison.stabilize(written, again) for written in rendered]
    final = _with_checksums(final, comparison, last)
    if final == rendered:
        return StableOutput(first, _bounded_notes(comparison.notes))
    return StableOutput(_emit_output(final), _bounded_notes(comparison.notes))


# ---- keys of Secrets


@dataclass(frozen=True, slots=True)
class _Keys:
    """The final values of all generated keys."""

    final: Mapping[tuple[_Identity, str], bytes]
    generated: tuple[_Generated, ...]
    stuck: frozenset[tuple[_Identity, str]]


def _keys(rendered: Iterable[ManifestObject], again: _Objects, last: _Objects) -> list[_Key]:
    """Every generated key, short values first: long ones may contain them."""
    found = []
    for written in rendered:
        identity = _identity(written.object)
        if identity[:2] != _SECRET or identity not in again:
            continue
        second = _values(again[identity].object)
        kept = _values(last[identity].object) if identity in last else {}
        found += [
            _Key(identity, name, value, second[name], kept.get(name))
            for name, value in _values(written.object).items()
            if name in second and second[name] != value
        ]
    return sorted(found, key=lambda key: (len(key.first), key.secret, key.name))


def _stable_keys(keys: Iterable[_Key]) -> _Keys:
    final: dict[tuple[_Identity, str], bytes] = {}
    stuck: set[tuple[_Identity, str]] = set()
    generated: list[_Generated] = []
    repeated: set[bytes] = set()
    composer = _Composer([])
    for key in keys:
        where, is_known = (key.secret, key.name), key.kept is not None
        # The same value in two Secrets: each keeps its own.
        is_bare = is_known and key.first in repeated
        composed = None if is_bare else composer.compose(key.first, key.second)
        if composed is not None:
            final[where] = composed
            continue
        value = key.first if key.kept is None else key.kept
        final[where] = value
        generated.append(_Generated(key.first, key.second, value, is_known))
        repeated.add(key.first)
        if key.kept is not None and _differs_outside(key.first, key.second, key.kept):
            stuck.add(where)
        if is_known and len(generated) <= _MOST_SEARCHED_FOR:
            # Of kept values alone: a new one must not replace what a kept text contains.
            composer = composer.with_values(_searchable(one for one in generated if one.is_kept))
    return _Keys(final, _searchable(generated), frozenset(stuck))


def _searchable(generated: Iterable[_Generated]) -> tuple[_Generated, ...]:
    """Those to look for in texts; a short one may stand in a text by chance."""
    long = (one for one in generated if len(one.first.strip()) >= _LEAST_SEARCHED_CHARS)
    return tuple(itertools.islice(long, _MOST_SEARCHED_FOR))


def _differs_outside(first: bytes, second: bytes, kept: bytes) -> bool:
    """Whether the text around what is generated has a word that the kept value lacks.

    A word of one character may be equal by chance, and so may parts of a certificate.
    """
    words, others = _WORD.findall(first), _WORD.findall(second)
    if len(words) != len(others) or _ARMOR in first:
        return False
    fixed = {word for word, other in zip(words, others, strict=True) if word == other}
    return any(len(word) > 1 for word in fixed.difference(_WORD.findall(kept)))


def _values(secret: Object) -> dict[str, bytes]:
    """The values of a Secret as pods see them; plain ones win, as on the server."""
    encoded, plain = (_texts(secret.get(name)) for name in _VALUES)
    return {
        **{name: _decoded(text) for name, text in encoded.items()},
        **{name: text.encode("utf-8", "surrogatepass") for name, text in plain.items()},
    }


def _texts(data: JSON) -> dict[str, str]:
    if not isinstance(data, dict):
        return {}
    return {name: text for name, text in data.items() if isinstance(text, str)}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError:
        # What it should have been is said when the bundle is checked.
        return text.encode("utf-8", "surrogatepass")


# ---- texts that contain generated values


class _Composer:
    """Puts final values into texts that contain generated ones, plain or as base64."""

    def __init__(
        self, generated: Sequence[_Generated], left_bytes: int = _MOST_SEARCHED_BYTES
    ) -> None:
        self._left_bytes = left_bytes
        self._second: dict[bytes, bytes] = {}
        self._final: dict[bytes, bytes] = {}
        for one in generated:
            for form in (bytes.strip, base64.b64encode):
                self._second.setdefault(form(one.first), form(one.second))
                self._final.setdefault(form(one.first), form(one.final))

    def with_values(self, generated: Sequence[_Generated]) -> _Composer:
        """One that knows these values; what was searched already still counts."""
        return _Composer(generated, self._left_bytes)

    def compose(self, first: bytes, second: bytes) -> bytes | None:
        """`first` with final values; None unless generated values explain the difference."""
        self._left_bytes -= len(first)
        if (
            not self._second
            or self._left_bytes < 0
            or _replace_values(first, self._second) != second
        ):
            return None
        return _replace_values(first, self._final)


def _replace_values(text: bytes, values: Mapping[bytes, bytes]) -> bytes | None:
    """`text` with other values, long ones first: they may contain short ones."""
    for old in sorted(values, key=len, reverse=True):
        new = values[old]
        # A kept value may be long and stand in many places; no pod could read the result.
        if len(text) + text.count(old) * (len(new) - len(old)) > _MOST_SEARCHED_BYTES:
            return None
        text = text.replace(old, new)
    return text


# ---- everything else


@dataclass(frozen=True, slots=True)
class _Checksum:
    """Where a pod template carries a checksum that differs."""

    of: _Identity
    path: tuple[str, ...]


class _Comparison:
    """Compares the renders object by object, and notes what stays generated."""

    def __init__(self, keys: _Keys) -> None:
        self._keys = keys
        self._composer = _Composer(keys.generated)
        self.notes: list[str] = []
        self.checksums: list[_Checksum] = []
        self.generating: set[str] = set()  # templates in which something is generated

    def stabilize(self, written: ManifestObject, again: _Objects) -> ManifestObject:
        obj, identity = written.object, _identity(written.object)
        other = again[identity].object if identity in again else None
        if obj == other:
            return written
        self.generating.add(written.file)
        if other is None:
            self.notes.append(
                f"{field_rules.describe(obj)} has a generated name, so every change of the chart "
                "replaces it; give it a fixed name"
            )
            return written
        if identity[:2] == _SECRET:
            return replace(written, object=self._secret(obj, other, identity))
        return replace(written, object=self._merged(obj, obj, other, ()))

    def _secret(self, obj: Object, other: Object, identity: _Identity) -> Object:
        if _values(obj).keys() != _values(other).keys():
            self._note(obj, ("data",))
        rest, others = ({k: v for k, v in one.items() if k not in _VALUES} for one in (obj, other))
        merged: Object = {**obj, **self._merged(obj, rest, others, ())}
        for name, value in _values(obj).items():
            final = self._keys.final.get((identity, name), value)
            if final != value:
                merged = _with_value(merged, name, final)
            if (identity, name) in self._keys.stuck:
                self.notes.append(
                    f"{field_rules.describe(obj)} key {field_rules.escape(name)[:63]} keeps its "
                    "value because a part of it is generated; the change of the rest is not applied"
                )
        return merged

    def _merged(self, obj: Object, first: JSON, second: JSON, path: _Path) -> JSON:
        if first == second:
            return first
        if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
            return {
                name: self._merged(obj, value, second[name], (*path, name))
                for name, value in first.items()
            }
        if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
            pairs = zip(first, second, strict=True)
            return [self._merged(obj, *pair, (*path, at)) for at, pair in enumerate(pairs)]
        return self._leaf(obj, first, second, path)

    def _leaf(self, obj: Object, first: JSON, second: JSON, path: _Path) -> JSON:
        if isinstance(first, str) and isinstance(second, str):
            if _is_checksum(obj, path, first, second):
                self.checksums.append(_Checksum(_identity(obj), tuple(map(str, path))))
                return first
            composed = self._composer.compose(first.encode(), second.encode())
            if composed is not None:
                return composed.decode("utf-8", "replace")
        self._note(obj, path)
        return first

    def _note(self, obj: Object, path: _Path) -> None:
        where = ""
        for member in path:
            is_index = isinstance(member, int)
            where = f"{where}[{member}]" if is_index else shapes.join_path(where, str(member))
        self.notes.append(
            f"{field_rules.describe(obj)} {field_rules.escape(where)} is generated anew with every "
            "change of the chart; set a fixed value, or generate it in a Secret"
        )


def _with_value(secret: Object, name: str, value: bytes) -> Object:
    """A Secret with another value of a key, whichever way it was written."""
    plain = {key: text for key, text in (secret.get("stringData") or {}).items() if key != name}
    data = {**(secret.get("data") or {}), name: base64.b64encode(value).decode()}
    rest = {key: item for key, item in secret.items() if key != "stringData"}
    return {**rest, "data": data, **({"stringData": plain} if plain else {})}


# ---- checksums


def _is_checksum(obj: Object, path: _Path, first: str, second: str) -> bool:
    """Whether a pod template is labeled or annotated with a digest, by its name or its look."""
    allowed = kinds.allowed_kind(obj)
    if allowed is None or allowed.template is None:
        return False
    above = (*allowed.template, "metadata")
    if path[:-2] != above or path[-2] not in ("annotations", "labels"):
        return False
    is_digest = all(_DIGEST.fullmatch(text) for text in (first, second))
    return is_digest or "checksum" in str(path[-1]).lower()


def _with_checksums(
    final: list[ManifestObject], comparison: _Comparison, last: Sequence[ManifestObject]
) -> list[ManifestObject]:
    rows, known = _by_identity(final), _by_identity(last)
    now, before = _Digests(rows), _Digests(known)
    sources: dict[_Identity, list[_Identity]] = {}
    for one in comparison.checksums:
        written, kept = rows[one.of], known.get(one.of)
        if one.of not in sources:
            sources[one.of] = sorted(_sources(written, final, comparison.generating))
        digest, old = now.digest(sources[one.of]), _text_at(kept, one.path)
        is_kept = bool(old) and before.digest(sources[one.of]) == digest
        # As long as before: a label has a bound, and a chart may have cut it on purpose.
        value = old if is_kept else digest[: len(_text_at(written, one.path))]
        obj = labeling.edit_at(written.object, one.path, functools.partial(_replacement, value))
        rows[one.of] = replace(written, object=obj)
    return [rows[_identity(written.object)] for written in final]


def _replacement(value: str, _: JSON) -> str:
    return value


def _sources(
    workload: ManifestObject, final: Iterable[ManifestObject], generating: Container[str]
) -> Iterator[_Identity]:
    """The Secrets and ConfigMaps that a checksum of a workload covers."""
    named, chart = set(_words(kinds.pod_spec(workload.object))), _chart(workload.file)
    for written in final:
        identity = _identity(written.object)
        is_own = written.file in generating and _chart(written.file) == chart
        if identity[:2] in _CONFIGURATION and (is_own or identity[2] in named):
            yield identity


def _words(value: JSON) -> Iterator[str]:
    """Every text in a pod spec; where the names of objects stand is the API's affair."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else ():
        yield from _words(inner)
    for inner in value if isinstance(value, list) else ():
        yield from _words(inner)


class _Digests:
    """Digests of Secrets and ConfigMaps, each computed once."""

    def __init__(self, objects: _Objects) -> None:
        self._objects = objects
        self._known: dict[_Identity, str] = {}

    def digest(self, identities: Iterable[_Identity]) -> str:
        """That of some objects together; one that is not there counts as absent."""
        return _hash([(*one, self._digest_of(one)) for one in identities if one in self._objects])

    def _digest_of(self, identity: _Identity) -> str:
        if identity not in self._known:
            self._known[identity] = _hash(_content(self._objects[identity].object))
        return self._known[identity]


def _content(obj: Object) -> list[tuple[str, str]]:
    """Keys and values, without labels: nothing restarts for the version of a chart."""
    if kinds.group_kind(obj) == _SECRET:
        found = {name: base64.b64encode(value).decode() for name, value in _values(obj).items()}
    else:
        found = {**_texts(obj.get("data")), **_texts(obj.get("binaryData"))}
    return sorted(found.items())


def _hash(value: JSON) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()


def _chart(file: str) -> str:
    """The chart that a template belongs to, a subchart by its path in the parent."""
    return file.partition("/templates/")[0]


def _text_at(written: ManifestObject | None, path: Sequence[str]) -> str:
    obj = written.object if written is not None else {}
    found = (kinds.map_at(obj, path[:-1]) or {}).get(path[-1])
    return found if isinstance(found, str) else ""


# ---- objects as a list, by identity, as text


def _identity(obj: Object) -> _Identity:
    return (*kinds.group_kind(obj), field_rules.object_name(obj))


def _by_identity(manifests: Iterable[ManifestObject]) -> dict[_Identity, ManifestObject]:
    return {_identity(written.object): written for written in manifests}


def _emit_output(manifests: Iterable[ManifestObject]) -> bytes:
    return b"".join(
        f"---\n# Source: {written.file}\n".encode() + yaml_emitter.emit(written.object)
        for written in manifests
    )


def _bounded_notes(notes: Sequence[str]) -> tuple[str, ...]:
    shown = sorted(notes)[:_MOST_NOTES]
    rest = len(notes) - len(shown)
    if rest:
        shown.append(f"{rest} more values are generated anew with every change of the chart")
    return tuple(shown)
