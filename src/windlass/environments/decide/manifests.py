"""Files of a repository as a list of objects.

A path is one file, or every YAML and JSON file below it in byte order. Documents may be
many to a file, `List`s are unfolded. A document with neither apiVersion nor kind is not meant
for the API server: it is skipped and named. What cannot be read is an error that names file
and document; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from windlass.environments.decide.hooks import Hook
from windlass.objects import yaml_reader
from windlass.objects.names import JSON, Object

MOST_OBJECTS = 500
MOST_BYTES = 16 << 20

NO_KUSTOMIZE = (
    "kustomize is not supported yet; commit the output of kustomize build, or list the file under "
    "exclude of the template"
)

_KUSTOMIZE = "kustomize.config.k8s.io/"
_MOST_CHARS = 63
_ENDINGS = (".yaml", ".yml", ".json")


class RenderRefused(ValueError):
    """Files that make no bundle; `reason` says of which kind the trouble is."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object as a project wrote it, the file in which it stands, and when it runs."""

    object: Object
    file: str
    hook: Hook | None = None


def is_manifest(path: str) -> bool:
    """Whether a file below a directory belongs to the bundle."""
    return path.endswith(_ENDINGS)


@dataclass(frozen=True, slots=True)
class Written:
    """What some files hold: objects, and documents that are none."""

    objects: tuple[Manifest, ...]
    skipped: tuple[str, ...] = ()


def objects(files: Mapping[str, bytes]) -> list[Manifest]:
    """All objects of some files that must hold nothing else."""
    found = read(files)
    for where in found.skipped:
        raise RenderRefused("RenderFailed", _incomplete(where))
    return list(found.objects)


def read(files: Mapping[str, bytes]) -> Written:
    """All objects of some files, in the byte order of their paths, and what else they hold."""
    if sum(map(len, files.values())) > MOST_BYTES:
        raise RenderRefused(
            "RenderTooLarge", f"the manifests are larger than {MOST_BYTES >> 20} MiB; split them"
        )
    found: list[Manifest] = []
    skipped: list[str] = []
    for path in sorted(files, key=lambda path: path.encode()):
        for obj in _of_file(path, files[path], skipped):
            found.append(Manifest(obj, path))
            if len(found) > MOST_OBJECTS:
                raise RenderRefused(
                    "RenderTooLarge", f"the manifests hold more than {MOST_OBJECTS} objects"
                )
    if not found:
        # Nothing wished would take away everything that runs; a wrong path looks the same.
        raise RenderRefused("RenderFailed", "there is no object in the manifests; check the path")
    return Written(tuple(found), tuple(skipped))


def _of_file(path: str, content: bytes, skipped: list[str]) -> Iterator[Object]:
    try:
        documents = yaml_reader.read_all(content, max_bytes=MOST_BYTES)
    except ValueError as error:
        raise RenderRefused("RenderFailed", f"{path}: {error}") from error
    for number, document in enumerate(documents, 1):
        where = f"{path}, document {number}" if len(documents) > 1 else path
        if document is not None and not _is_meant(document):
            skipped.append(where)
        else:
            yield from _unfolded(document, where)


def _unfolded(document: JSON, where: str) -> Iterator[Object]:
    if document is None:
        return
    if not isinstance(document, dict) or not all(
        isinstance(document.get(name), str) and document[name] for name in ("apiVersion", "kind")
    ):
        raise RenderRefused("RenderFailed", _incomplete(where))
    if document["apiVersion"].startswith(_KUSTOMIZE):
        raise RenderRefused("RenderFailed", f"{where}: {NO_KUSTOMIZE}")
    if _is_list(document):
        for index, item in enumerate(_items(document, where)):
            yield from _unfolded(item, f"{where}, item {index + 1}")
        return
    if not _is_named(document):
        kind = document["kind"][:_MOST_CHARS]
        raise RenderRefused("RenderFailed", f"{where}: {kind}: {_nameless(document)}")
    yield document


def _is_meant(document: JSON) -> bool:
    """Whether a document is meant to be an object: it says at least half of what it is."""
    return isinstance(document, dict) and ("apiVersion" in document or "kind" in document)


def _incomplete(where: str) -> str:
    text = "apiVersion and kind are required; add them, or leave the file out"
    return f"{where} is not a Kubernetes object: {text}"


def _nameless(document: Object) -> str:
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
