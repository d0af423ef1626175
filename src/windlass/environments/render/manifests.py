"""Parses manifests and the output of helm into a list of objects.

`renderer` calls it with the files of a commit, or with what helm printed.

Manifests: all files are read in the byte order of their paths. A file may have many documents;
`List`s are unfolded. A document without apiVersion or kind is not meant for the API server
(Chart.yaml has one of them): it is skipped and listed. One that has the other and a metadata.name
is an object with a typo and refused, because skipping it would prune what runs. A file that
cannot be parsed is an error with file and document; nothing is guessed.

Charts: helm prints every document behind a comment with the path of its template; messages use
that path. A line `---` always ends a document, whatever it contains, so the output is split
there.

CRDs of charts: helm installs the files in `crds` beside the templates and never prints them, so
they are listed here as left out. Dependencies lie below `charts`, as directories or as archives;
an archive is read up to a bound, because it may claim any size.

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
    "kustomize is not supported yet; commit the output of kustomize build, or add the file to "
    "exclude of the template"
)

_FIX_OR_EXCLUDE = "fix it, or add the file to exclude of the template"
_FIX_TEMPLATE = "fix the template of the chart"
_KUSTOMIZE = "kustomize.config.k8s.io/"
_MOST_KIND_CHARS = 63
_ENDINGS = (".yaml", ".yml", ".json")


class RenderRefused(ValueError):
    """Files that cannot be rendered; `reason` is the condition reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ManifestObject:
    """An object as a project wrote it."""

    object: Object
    file: str  # its manifest, or its template in the chart
    hook: Hook | None = None  # None where it is applied with the rest


def is_manifest(path: str) -> bool:
    """Whether a file below the template's directory is read as a manifest."""
    return path.endswith(_ENDINGS)


@dataclass(frozen=True, slots=True)
class ParsedManifests:
    """The content of some files."""

    objects: tuple[ManifestObject, ...]
    skipped: tuple[str, ...] = ()  # documents that are no objects, by file and number


def objects(files: Mapping[str, bytes]) -> list[ManifestObject]:
    """All objects of files in which every document must be an object."""
    parsed = _parse_files(files, _FIX_TEMPLATE)
    for where in parsed.skipped:
        raise RenderRefused("RenderFailed", _incomplete_message(where, _FIX_TEMPLATE))
    _require_objects(parsed)
    return list(parsed.objects)


def read_manifests(files: Mapping[str, bytes]) -> ParsedManifests:
    """All objects of some files in the byte order of their paths, and the skipped documents."""
    parsed = _parse_files(files, _FIX_OR_EXCLUDE)
    _require_objects(parsed)
    return parsed


def _require_objects(parsed: ParsedManifests) -> None:
    if not parsed.objects:
        # An empty bundle would prune everything that runs; a wrong path gives one as well.
        raise RenderRefused("RenderFailed", "no objects found in the manifests; check the path")


def _parse_files(files: Mapping[str, bytes], remedy: str) -> ParsedManifests:
    """The content of all files; `remedy` is what to do about a document that cannot be read."""
    if sum(map(len, files.values())) > MOST_BYTES:
        raise RenderRefused(
            "RenderTooLarge", f"the manifests are larger than {MOST_BYTES >> 20} MiB; split them"
        )
    parsed: list[ManifestObject] = []
    skipped: list[str] = []
    for path in sorted(files, key=lambda path: path.encode()):
        for obj in _parse_file(path, files[path], skipped, remedy):
            parsed.append(ManifestObject(obj, path))
            if len(parsed) > MOST_OBJECTS:
                raise RenderRefused(
                    "RenderTooLarge",
                    f"the manifests contain more than {MOST_OBJECTS} objects; split them",
                )
    return ParsedManifests(tuple(parsed), tuple(skipped))


def _parse_file(path: str, content: bytes, skipped: list[str], remedy: str) -> Iterator[Object]:
    try:
        documents = yaml_reader.read_all(content, max_bytes=MOST_BYTES)
    except ValueError as error:
        raise RenderRefused("RenderFailed", f"{path}: {error}; {remedy}") from error
    for number, document in enumerate(documents, 1):
        where = f"{path}, document {number}" if len(documents) > 1 else path
        if document is not None and not _is_object_like(document):
            skipped.append(where)
        else:
            yield from _unfold(document, where, remedy)


def _unfold(document: JSON, where: str, remedy: str) -> Iterator[Object]:
    if document is None:
        return
    if not isinstance(document, dict) or not all(
        isinstance(document.get(name), str) and document[name] for name in ("apiVersion", "kind")
    ):
        raise RenderRefused("RenderFailed", _incomplete_message(where, remedy))
    if document["apiVersion"].startswith(_KUSTOMIZE):
        raise RenderRefused("RenderFailed", f"{where}: {NO_KUSTOMIZE}")
    if _is_list(document):
        for index, item in enumerate(_items(document, where)):
            yield from _unfold(item, f"{where}, item {index + 1}", remedy)
        return
    if not _is_named(document):
        kind = document["kind"][:_MOST_KIND_CHARS]
        raise RenderRefused(
            "RenderFailed", f"{where}: {kind}: {_nameless_message(document, remedy)}"
        )
    yield document


def _is_object_like(document: JSON) -> bool:
    """Whether a document is meant to be an object: it has both keys, or one and a name."""
    if not isinstance(document, dict):
        return False
    present = [name for name in ("apiVersion", "kind") if name in document]
    return len(present) > 1 or (bool(present) and _is_named(document))


def _incomplete_message(where: str, remedy: str) -> str:
    return f"{where} is not a Kubernetes object: apiVersion and kind are required; {remedy}"


def _nameless_message(document: Object, remedy: str) -> str:
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and metadata.get("generateName"):
        return (
            "metadata.generateName is not supported, because every apply would create another "
            "object; set metadata.name instead"
        )
    return f"metadata.name is required; {remedy}"


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
    """The objects of a chart that are applied."""

    manifests: tuple[ManifestObject, ...]
    skipped_hooks: tuple[str, ...] = ()  # texts about those that never run


def parse_chart_output(output: bytes) -> list[ManifestObject]:
    """All objects that `helm template` printed; RenderRefused where there are none."""
    by_template = _by_template(output)
    if not by_template:
        raise RenderRefused(
            "RenderFailed", "the chart renders no objects with these values; check them"
        )
    return objects(by_template)


def parse_readable_output(output: bytes) -> list[ManifestObject]:
    """The objects of an output that was applied before, as far as they can still be parsed.

    It was accepted by the rules of its time; one template that is refused today must not cost
    the passwords in all others.
    """
    readable: list[ManifestObject] = []
    for name, text in _by_template(output).items():
        with contextlib.suppress(RenderRefused):
            readable += objects({name: text})
    return readable


def read_chart(output: bytes) -> ChartObjects:
    """The objects of a chart as they are applied; RenderRefused where there are none."""
    applied: list[ManifestObject] = []
    skipped: list[str] = []
    for manifest in parse_chart_output(output):
        skipped.extend(hooks.skipped_hooks(manifest.object))
        if not hooks.is_skipped(manifest.object):
            applied.append(
                ManifestObject(manifest.object, manifest.file, hooks.parse_hook(manifest.object))
            )
    if not applied:
        raise RenderRefused("RenderFailed", "the chart renders only hooks that are not supported")
    return ChartObjects(tuple(applied), tuple(skipped))


def _by_template(output: bytes) -> dict[str, bytes]:
    by_template: defaultdict[str, list[bytes]] = defaultdict(list)
    for document in _DOCUMENT.split(output):
        if not _is_empty_document(document):
            by_template[_template_name(document)].append(document)
    return {name: b"\n---\n".join(documents) for name, documents in by_template.items()}


def _is_empty_document(document: bytes) -> bool:
    """Whether it has nothing but comments: a template that is turned off by its values."""
    lines = (line.lstrip() for line in document.splitlines())
    return all(not line or line.startswith(b"#") for line in lines)


def _template_name(document: bytes) -> str:
    source = _SOURCE.match(document)
    return (
        source[1].decode("utf-8", "replace")[:_MOST_TEMPLATE_CHARS] if source else _UNKNOWN_TEMPLATE
    )


_MOST_ARCHIVE_BYTES = 32 << 20
_NESTED = r"(charts/[^/]+/)*"
_DEFINING = re.compile(rf"{_NESTED}crds/.+\.(yaml|yml|json)")
_ARCHIVE = re.compile(rf"{_NESTED}charts/[^/]+\.(tgz|tar\.gz)")


def crd_files(chart: Mapping[str, bytes]) -> tuple[str, ...]:
    """The CRD files of a chart, for `status.unsupported`; paths are relative to Chart.yaml."""
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
    """The paths of the files in an archive; none where it is damaged: helm reports that."""
    try:
        decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        unpacked = decompressor.decompress(archive, _MOST_ARCHIVE_BYTES)
        with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as files:
            return [member.name.removeprefix("./") for member in files if member.isfile()]
    except (zlib.error, tarfile.TarError):
        return []
