"""Stabilizes the values that a chart generates with every render.

A chart is rendered twice with the same inputs; what differs was generated. The *stored* output
(`output_store`) is the one that was applied last, with whatever inputs.

| What differs | Final value |
|---|---|
| a key of a Secret | that of the stored output, else that of the first render |
| a text that contains such values (URL, script) | the text with the final values in it |
| a checksum on a pod template | a digest of the Secrets and ConfigMaps behind it, see below |
| anything else | that of the first render, with a note |

So a value stays for as long as its Secret has the key, a value that the project sets wins
because both renders have it, and pods restart if and only if their configuration changed.
A checksum cannot be computed as helm does: a chart renders the template once more for it, and
that generates values which no object has. So it covers the Secrets and ConfigMaps that the pods
reference, and those in templates of their own chart that generate something. While these are
equal to the stored ones, the stored checksum stays: one that helm computed restarts nothing
either.

`renderer.ChartRenderer` calls `stabilize`; everything else is private to it.

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
from windlass.objects.names import JSON, Object, format_count

_SECRET = ("", "Secret")
_CONFIGURATION = (_SECRET, ("", "ConfigMap"))
_VALUES = ("data", "stringData")
_DIGEST = re.compile(r"[0-9a-f]{32,128}")
_WORD = re.compile(rb"[A-Za-z0-9]+")
_ARMOR = b"-----BEGIN "
_MOST_NOTES = 20
# Charts are untrusted input: the bytes that are searched, and the values searched for, are bounded.
_MOST_SEARCHED_BYTES = 1 << 20
_MOST_SEARCHED_FOR = 64
_LEAST_SEARCHED_CHARS = 8

_Identity = tuple[str, str, str]  # group, kind, name
_Path = tuple[str | int, ...]  # keys and indexes from the root of an object
_Objects = Mapping[_Identity, ManifestObject]


@dataclass(frozen=True, slots=True)
class StableOutput:
    """The output that is applied and stored."""

    output: bytes
    notes: tuple[str, ...] = ()  # what will differ with the next render


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of a Secret that both renders have with different values."""

    secret: _Identity
    name: str
    first: bytes
    second: bytes
    stored: bytes | None  # None where the stored output lacks the key


@dataclass(frozen=True, slots=True)
class _Generated:
    """One generated value: in both renders, and as it is used."""

    first: bytes
    second: bytes
    final: bytes
    is_stored: bool  # whether `final` comes from the stored output


def stabilize(first: bytes, second: bytes, stored: bytes) -> StableOutput:
    """The final output of a chart; RenderRefused where a render is not a list of objects.

    `stored` is empty where nothing was applied yet.
    """
    if first == second:
        return StableOutput(first)
    first_objects, second_objects = (
        manifests.parse_chart_output(first),
        _by_identity(manifests.parse_chart_output(second)),
    )
    previous = manifests.parse_readable_output(stored)
    keys = _stable_keys(_keys(first_objects, second_objects, _by_identity(previous)))
    comparison = _Comparison(keys)
    final = [comparison.stabilize(manifest, second_objects) for manifest in first_objects]
    final = _with_checksums(final, comparison, previous)
    if final == first_objects:
        return StableOutput(first, _bounded_notes(comparison.notes))
    return StableOutput(_emit_output(final), _bounded_notes(comparison.notes))


# ---- keys of Secrets


@dataclass(frozen=True, slots=True)
class _Keys:
    """All generated keys of Secrets, by Secret and key."""

    final: Mapping[tuple[_Identity, str], bytes]
    generated: tuple[_Generated, ...]  # those to search for in texts
    stuck: frozenset[tuple[_Identity, str]]  # whose fixed part changed, but cannot be applied


def _keys(
    first_objects: Iterable[ManifestObject], second_objects: _Objects, previous: _Objects
) -> list[_Key]:
    """Every generated key, short values first, because long ones may contain them."""
    keys = []
    for manifest in first_objects:
        identity = _identity(manifest.object)
        if identity[:2] != _SECRET or identity not in second_objects:
            continue
        second = _values(second_objects[identity].object)
        stored = _values(previous[identity].object) if identity in previous else {}
        keys += [
            _Key(identity, name, value, second[name], stored.get(name))
            for name, value in _values(manifest.object).items()
            if name in second and second[name] != value
        ]
    return sorted(keys, key=lambda key: (len(key.first), key.secret, key.name))


def _stable_keys(keys: Iterable[_Key]) -> _Keys:
    final: dict[tuple[_Identity, str], bytes] = {}
    stuck: set[tuple[_Identity, str]] = set()
    generated: list[_Generated] = []
    repeated: set[bytes] = set()
    composer = _Composer([])
    for key in keys:
        location, is_stored = (key.secret, key.name), key.stored is not None
        # The same generated value in two Secrets: each keeps its own stored one.
        stays_as_stored = is_stored and key.first in repeated
        composed = None if stays_as_stored else composer.compose(key.first, key.second)
        if composed is not None:
            final[location] = composed
            continue
        value = key.first if key.stored is None else key.stored
        final[location] = value
        generated.append(_Generated(key.first, key.second, value, is_stored))
        repeated.add(key.first)
        if key.stored is not None and _differs_outside(key.first, key.second, key.stored):
            stuck.add(location)
        if is_stored and len(generated) <= _MOST_SEARCHED_FOR:
            # Of stored values alone: a new one must not replace a part of a stored text.
            composer = composer.with_values(
                _searchable(value_of_key for value_of_key in generated if value_of_key.is_stored)
            )
    return _Keys(final, _searchable(generated), frozenset(stuck))


def _searchable(generated: Iterable[_Generated]) -> tuple[_Generated, ...]:
    """The values to search for in texts; a short one may be in a text by chance."""
    long_enough = (
        value for value in generated if len(value.first.strip()) >= _LEAST_SEARCHED_CHARS
    )
    return tuple(itertools.islice(long_enough, _MOST_SEARCHED_FOR))


def _differs_outside(first: bytes, second: bytes, stored: bytes) -> bool:
    """Whether the text around the generated part has a word that the stored value lacks.

    A word of one character may be equal by chance, and so may parts of a certificate.
    """
    words, others = _WORD.findall(first), _WORD.findall(second)
    if len(words) != len(others) or _ARMOR in first:
        return False
    fixed = {word for word, other in zip(words, others, strict=True) if word == other}
    return any(len(word) > 1 for word in fixed.difference(_WORD.findall(stored)))


def _values(secret: Object) -> dict[str, bytes]:
    """The values of a Secret as pods see them; `stringData` wins, as on the server."""
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
        # The bundle is refused for it later, with the path of the field.
        return text.encode("utf-8", "surrogatepass")


# ---- texts that contain generated values


class _Composer:
    """Puts final values into texts that contain generated ones, plain or as base64."""

    def __init__(
        self, generated: Sequence[_Generated], left_bytes: int = _MOST_SEARCHED_BYTES
    ) -> None:
        self._left_bytes = left_bytes  # budget of bytes to search; below zero nothing is composed
        # From a value of the first render to that of the second, and to the final one.
        self._second: dict[bytes, bytes] = {}
        self._final: dict[bytes, bytes] = {}
        for value in generated:
            for encode in (bytes.strip, base64.b64encode):
                self._second.setdefault(encode(value.first), encode(value.second))
                self._final.setdefault(encode(value.first), encode(value.final))

    def with_values(self, generated: Sequence[_Generated]) -> _Composer:
        """A composer with these values and what is left of this one's budget."""
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
    """`text` with other values, long ones first, because they may contain short ones."""
    for old in sorted(values, key=len, reverse=True):
        new = values[old]
        # A stored value may be long and occur often; no pod could read the result.
        if len(text) + text.count(old) * (len(new) - len(old)) > _MOST_SEARCHED_BYTES:
            return None
        text = text.replace(old, new)
    return text


# ---- everything else


@dataclass(frozen=True, slots=True)
class _Checksum:
    """A checksum on a pod template that differs between the renders."""

    of: _Identity  # the workload
    path: tuple[str, ...]  # of the label or annotation


class _Comparison:
    """Compares the renders object by object, and collects notes about what stays generated."""

    def __init__(self, keys: _Keys) -> None:
        self._keys = keys
        self._composer = _Composer(keys.generated)
        self.notes: list[str] = []  # for users, unbounded
        self.checksums: list[_Checksum] = []  # replaced once all objects are final
        self.generating: set[str] = set()  # templates in which something is generated

    def stabilize(self, manifest: ManifestObject, second_objects: _Objects) -> ManifestObject:
        obj, identity = manifest.object, _identity(manifest.object)
        other = second_objects[identity].object if identity in second_objects else None
        if obj == other:
            return manifest
        self.generating.add(manifest.file)
        if other is None:
            self.notes.append(
                f"{field_rules.describe(obj)} has a generated name, so every change of the chart "
                "replaces it; set a fixed name"
            )
            return manifest
        if identity[:2] == _SECRET:
            return replace(manifest, object=self._secret(obj, other, identity))
        return replace(manifest, object=self._merged(obj, obj, other, ()))

    def _secret(self, obj: Object, other: Object, identity: _Identity) -> Object:
        if _values(obj).keys() != _values(other).keys():
            self._note(obj, ("data",))
        rest, others = (
            {k: v for k, v in secret.items() if k not in _VALUES} for secret in (obj, other)
        )
        merged: Object = {**obj, **self._merged(obj, rest, others, ())}
        for name, value in _values(obj).items():
            final = self._keys.final.get((identity, name), value)
            if final != value:
                merged = _with_value(merged, name, final)
            if (identity, name) in self._keys.stuck:
                self.notes.append(
                    f"{field_rules.describe(obj)} key {field_rules.escape(name)[:63]} keeps its "
                    "value because part of it is generated; changes of the rest are not applied"
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
        shown = ""
        for step in path:
            is_index = isinstance(step, int)
            shown = f"{shown}[{step}]" if is_index else shapes.join_path(shown, str(step))
        self.notes.append(
            f"{field_rules.describe(obj)} {field_rules.escape(shown)} is generated again with "
            "every change of the chart; set a fixed value, or generate it in a Secret"
        )


def _with_value(secret: Object, name: str, value: bytes) -> Object:
    """A Secret with another value of a key, moved from `stringData` to `data` if need be."""
    plain = {key: text for key, text in (secret.get("stringData") or {}).items() if key != name}
    data = {**(secret.get("data") or {}), name: base64.b64encode(value).decode()}
    rest = {key: item for key, item in secret.items() if key != "stringData"}
    return {**rest, "data": data, **({"stringData": plain} if plain else {})}


# ---- checksums


def _is_checksum(obj: Object, path: _Path, first: str, second: str) -> bool:
    """Whether the path is a digest on a pod template: by its key, or by both values."""
    allowed = kinds.allowed_kind(obj)
    if allowed is None or allowed.template is None:
        return False
    above = (*allowed.template, "metadata")
    if path[:-2] != above or path[-2] not in ("annotations", "labels"):
        return False
    is_digest = all(_DIGEST.fullmatch(text) for text in (first, second))
    return is_digest or "checksum" in str(path[-1]).lower()


def _with_checksums(
    final: list[ManifestObject], comparison: _Comparison, stored: Sequence[ManifestObject]
) -> list[ManifestObject]:
    current, previous = _by_identity(final), _by_identity(stored)
    current_digests, previous_digests = _Digests(current), _Digests(previous)
    sources: dict[_Identity, list[_Identity]] = {}
    for checksum in comparison.checksums:
        manifest, old_manifest = current[checksum.of], previous.get(checksum.of)
        if checksum.of not in sources:
            sources[checksum.of] = sorted(_sources(manifest, final, comparison.generating))
        digest, old = (
            current_digests.digest(sources[checksum.of]),
            _text_at(old_manifest, checksum.path),
        )
        is_unchanged = bool(old) and previous_digests.digest(sources[checksum.of]) == digest
        # Cut to the length that the chart gave it: a label may have 63 characters.
        value = old if is_unchanged else digest[: len(_text_at(manifest, checksum.path))]
        obj = labeling.edit_at(
            manifest.object, checksum.path, functools.partial(_replacement, value)
        )
        current[checksum.of] = replace(manifest, object=obj)
    return [current[_identity(manifest.object)] for manifest in final]


def _replacement(value: str, _: JSON) -> str:
    return value


def _sources(
    workload: ManifestObject, final: Iterable[ManifestObject], generating: Container[str]
) -> Iterator[_Identity]:
    """The Secrets and ConfigMaps that a checksum of a workload covers."""
    words, chart = set(_words(kinds.pod_spec(workload.object))), _chart(workload.file)
    for manifest in final:
        identity = _identity(manifest.object)
        is_generating = manifest.file in generating and _chart(manifest.file) == chart
        if identity[:2] in _CONFIGURATION and (is_generating or identity[2] in words):
            yield identity


def _words(value: JSON) -> Iterator[str]:
    """Every string in a pod spec, and so every name of a Secret or ConfigMap it references."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else ():
        yield from _words(inner)
    for inner in value if isinstance(value, list) else ():
        yield from _words(inner)


class _Digests:
    """Computes digests of Secrets and ConfigMaps, each once."""

    def __init__(self, objects: _Objects) -> None:
        self._objects = objects
        self._known: dict[_Identity, str] = {}

    def digest(self, identities: Iterable[_Identity]) -> str:
        """The digest of some objects together; missing ones are skipped."""
        return _hash(
            [
                (*identity, self._digest_of(identity))
                for identity in identities
                if identity in self._objects
            ]
        )

    def _digest_of(self, identity: _Identity) -> str:
        if identity not in self._known:
            self._known[identity] = _hash(_content(self._objects[identity].object))
        return self._known[identity]


def _content(obj: Object) -> list[tuple[str, str]]:
    """Keys and values alone: labels carry the version of a chart, which restarts nothing."""
    if kinds.group_kind(obj) == _SECRET:
        content = {name: base64.b64encode(value).decode() for name, value in _values(obj).items()}
    else:
        content = {**_texts(obj.get("data")), **_texts(obj.get("binaryData"))}
    return sorted(content.items())


def _hash(value: JSON) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()


def _chart(file: str) -> str:
    """The path of the chart or subchart that a template belongs to."""
    return file.partition("/templates/")[0]


def _text_at(manifest: ManifestObject | None, path: Sequence[str]) -> str:
    obj = manifest.object if manifest is not None else {}
    value = (kinds.map_at(obj, path[:-1]) or {}).get(path[-1])
    return value if isinstance(value, str) else ""


# ---- objects as a list, by identity, as text


def _identity(obj: Object) -> _Identity:
    return (*kinds.group_kind(obj), field_rules.object_name(obj))


def _by_identity(manifests: Iterable[ManifestObject]) -> dict[_Identity, ManifestObject]:
    return {_identity(manifest.object): manifest for manifest in manifests}


def _emit_output(manifests: Iterable[ManifestObject]) -> bytes:
    return b"".join(
        f"---\n# Source: {manifest.file}\n".encode() + yaml_emitter.emit(manifest.object)
        for manifest in manifests
    )


def _bounded_notes(notes: Sequence[str]) -> tuple[str, ...]:
    shown = sorted(notes)[:_MOST_NOTES]
    rest = len(notes) - len(shown)
    if rest:
        shown.append(f"and {format_count(rest, 'more generated value')}")
    return tuple(shown)
