"""Parses manifests and the output of helm into a list of objects.

Manifests: a path is one file, or every YAML and JSON file below it in byte order. Documents may
be many to a file, `List`s are unfolded. A document with neither apiVersion nor kind is not meant
for the API server: it is skipped and named. What cannot be read is an error that names file
and document; nothing is guessed.

Charts: helm writes every document behind a line that names its template; messages name that
file. A line `---` always ends a document, whatever stands in it, so texts are cut there.

CRDs of charts: helm installs the files in `crds` beside the templates and never prints them with
these, so users would not learn that they are left out. Dependencies lie below `charts`, as
directories or as archives; an archive is read up to a bound, because it may claim any size.

Pure.
"""

from __future__ import annotations

import contextlib
import io
import re
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from windlass.environments.bundle import hooks
from windlass.environments.bundle.hooks import Hook
from windlass.objects import yaml_reader
from windlass.objects.names import JSON, Object

MOST_OBJECTS = 500
MOST_BYTES = 16 << 20

NO_KUSTOMIZE = (
    "kustomize is not supported yet; commit the output of kustomize build, or list the file under "
    "exclude of the template"
)

_KUSTOMIZE = "kustomize.config.k8s.io/"
_MOST_KIND_CHARS = 63
_ENDINGS = (".yaml", ".yml", ".json")


class RenderRefused(ValueError):
    """Files that make no bundle; `reason` says of which kind the trouble is."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ManifestObject:
    """An object as a project wrote it, the file in which it stands, and when it runs."""

    object: Object
    file: str
    hook: Hook | None = None


def is_manifest(path: str) -> bool:
    """Whether a file below a directory belongs to the bundle."""
    return path.endswith(_ENDINGS)


@dataclass(frozen=True, slots=True)
class ParsedManifests:
    """What some files hold: objects, and documents that are none."""

    objects: tuple[ManifestObject, ...]
    skipped: tuple[str, ...] = ()


def objects(files: Mapping[str, bytes]) -> list[ManifestObject]:
    """All objects of some files that must hold nothing else."""
    found = read_manifests(files)
    for where in found.skipped:
        raise RenderRefused("RenderFailed", _incomplete_message(where))
    return list(found.objects)


def read_manifests(files: Mapping[str, bytes]) -> ParsedManifests:
    """All objects of some files, in the byte order of their paths, and what else they hold."""
    if sum(map(len, files.values())) > MOST_BYTES:
        raise RenderRefused(
            "RenderTooLarge", f"the manifests are larger than {MOST_BYTES >> 20} MiB; split them"
        )
    found: list[ManifestObject] = []
    skipped: list[str] = []
    for path in sorted(files, key=lambda path: path.encode()):
        for obj in _parse_file(path, files[path], skipped):
            found.append(ManifestObject(obj, path))
            if len(found) > MOST_OBJECTS:
                raise RenderRefused(
                    "RenderTooLarge", f"the manifests hold more than {MOST_OBJECTS} objects"
                )
    if not found:
        # Nothing wished would take away everything that runs; a wrong path looks the same.
        raise RenderRefused("RenderFailed", "there is no object in the manifests; check the path")
    return ParsedManifests(tuple(found), tuple(skipped))


def _parse_file(path: str, content: bytes, skipped: list[str]) -> Iterator[Object]:
    try:
        documents = yaml_reader.read_all(content, max_bytes=MOST_BYTES)
    except ValueError as error:
        raise RenderRefused("RenderFailed", f"{path}: {error}") from error
    for number, document in enumerate(documents, 1):
        where = f"{path}, document {number}" if len(documents) > 1 else path
        if document is not None and not _is_object_like(document):
            skipped.append(where)
        else:
            yield from _unfold(document, where)


def _unfold(document: JSON, where: str) -> Iterator[Object]:
    if document is None:
        return
    if not isinstance(document, dict) or not all(
        isinstance(document.get(name), str) and document[name] for name in ("apiVersion", "kind")
    ):
        raise RenderRefused("RenderFailed", _incomplete_message(where))
    if document["apiVersion"].startswith(_KUSTOMIZE):
        raise RenderRefused("RenderFailed", f"{where}: {NO_KUSTOMIZE}")
    if _is_list(document):
        for index, item in enumerate(_items(document, where)):
            yield from _unfold(item, f"{where}, item {index + 1}")
        return
    if not _is_named(document):
        kind = document["kind"][:_MOST_KIND_CHARS]
        raise RenderRefused("RenderFailed", f"{where}: {kind}: {_nameless_message(document)}")
    yield document


def _is_object_like(document: JSON) -> bool:
    """Whether a document is meant to be an object: it says at least half of what it is."""
    return isinstance(document, dict) and ("apiVersion" in document or "kind" in document)


def _incomplete_message(where: str) -> str:
    text = "apiVersion and kind are required; add them, or leave the file out"
    return f"{where} is not a Kubernetes object: {text}"


def _nameless_message(document: Object) -> str:
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and metadata.get("generateName"):
        return (
            "metadata.generateName is not supported, because every apply would create another "
            "object; set metadata.name instead"
        )
    return "metadata.name is required"


def _is_list(document: Object) -> bool:
    return bool(document["kind"] == "List") or (
        document["kind"].endswith("List") and isinstance(document.get("items"), list)
    )


def _items(document: Object, where: str) -> list[JSON]:
    items = document.get("items") or []
    if not isinstance(items, list) or None in items:
        raise RenderRefused("RenderFailed", f"{where}: items must be a list of objects")
    return items


def _is_named(document: Object) -> bool:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return isinstance(name, str) and bool(name)


_UNKNOWN_TEMPLATE = "chart"
_MOST_TEMPLATE_CHARS = 256
_DOCUMENT = re.compile(rb"^---[ \t]*\r?$\n?", re.MULTILINE)
_SOURCE = re.compile(rb"\A(?:[ \t]*\r?\n)*# Source: ([^\r\n]+)")


@dataclass(frozen=True, slots=True)
class ChartObjects:
    """The objects of a chart, and what is not made of it."""

    manifests: tuple[ManifestObject, ...]
    left_out: tuple[str, ...] = ()


def parse_chart_output(output: bytes) -> list[ManifestObject]:
    """All objects that `helm template` printed; RenderRefused says why there are none."""
    found = _by_template(output)
    if not found:
        raise RenderRefused(
            "RenderFailed", "the chart makes no object with these values; check them"
        )
    return objects(found)


def parse_readable_output(output: bytes) -> list[ManifestObject]:
    """The objects of an output that was applied before, as far as they can still be read.

    It was read by the rules of its time; one template that is refused today must not cost
    the passwords in all others.
    """
    found: list[ManifestObject] = []
    for name, text in _by_template(output).items():
        with contextlib.suppress(RenderRefused):
            found += objects({name: text})
    return found


def read_chart(output: bytes) -> ChartObjects:
    """The objects of a chart as they are applied; RenderRefused says why there are none."""
    kept: list[ManifestObject] = []
    left_out: list[str] = []
    for written in parse_chart_output(output):
        left_out.extend(hooks.skipped_hooks(written.object))
        if not hooks.is_skipped(written.object):
            kept.append(
                ManifestObject(written.object, written.file, hooks.parse_hook(written.object))
            )
    if not kept:
        raise RenderRefused("RenderFailed", "the chart makes nothing but hooks that do not run")
    return ChartObjects(tuple(kept), tuple(left_out))


def _by_template(output: bytes) -> dict[str, bytes]:
    found: defaultdict[str, list[bytes]] = defaultdict(list)
    for document in _DOCUMENT.split(output):
        if not _is_empty_document(document):
            found[_template_name(document)].append(document)
    return {name: b"\n---\n".join(documents) for name, documents in found.items()}


def _is_empty_document(document: bytes) -> bool:
    """Whether nothing but comments stands in it: a template whose values turn it off."""
    lines = (line.lstrip() for line in document.splitlines())
    return all(not line or line.startswith(b"#") for line in lines)


def _template_name(document: bytes) -> str:
    named = _SOURCE.match(document)
    return (
        named[1].decode("utf-8", "replace")[:_MOST_TEMPLATE_CHARS] if named else _UNKNOWN_TEMPLATE
    )


_MOST_ARCHIVE_BYTES = 32 << 20
_NESTED = r"(charts/[^/]+/)*"
_DEFINING = re.compile(rf"{_NESTED}crds/.+\.(yaml|yml|json)")
_ARCHIVE = re.compile(rf"{_NESTED}charts/[^/]+\.(tgz|tar\.gz)")


def crd_files(chart: Mapping[str, bytes]) -> tuple[str, ...]:
    """What is not made of a chart, by its files; their paths begin where Chart.yaml lies."""
    return tuple(f"{path} (CustomResourceDefinitions)" for path in sorted(_crd_paths(chart)))


def _crd_paths(chart: Mapping[str, bytes]) -> Iterator[str]:
    for path, content in chart.items():
        if _DEFINING.fullmatch(path):
            yield path
        elif _ARCHIVE.fullmatch(path):
            for name in _archive_names(content):
                # The first directory in an archive is the chart's own.
                if _DEFINING.fullmatch(name.partition("/")[2]):
                    yield f"{path}/{name}"


def _archive_names(archive: bytes) -> list[str]:
    """The files of an archive; none where helm will say what is wrong with it."""
    try:
        engine = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        unpacked = engine.decompress(archive, _MOST_ARCHIVE_BYTES)
        with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as files:
            return [member.name.removeprefix("./") for member in files if member.isfile()]
    except (zlib.error, tarfile.TarError):
        return []
