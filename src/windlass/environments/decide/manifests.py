"""Files of a repository as a list of objects.

A path is one file, or every YAML and JSON file below it in byte order. Documents may be
many to a file, `List`s are unfolded. What cannot be read is an error that names file and
document; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from windlass.environments.decide.hooks import Hook
from windlass.objects import yaml_reader
from windlass.objects.json import JSON, Object

MOST_OBJECTS = 500
MOST_BYTES = 16 << 20

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


def objects(files: Mapping[str, bytes]) -> list[Manifest]:
    """All objects of some files, in the byte order of their paths."""
    if sum(map(len, files.values())) > MOST_BYTES:
        raise RenderRefused(
            "RenderTooLarge", f"the manifests are larger than {MOST_BYTES >> 20} MiB; split them"
        )
    found: list[Manifest] = []
    for path in sorted(files, key=lambda path: path.encode()):
        for obj in _of_file(path, files[path]):
            found.append(Manifest(obj, path))
            if len(found) > MOST_OBJECTS:
                raise RenderRefused(
                    "RenderTooLarge", f"the manifests hold more than {MOST_OBJECTS} objects"
                )
    if not found:
        # Nothing wished would take away everything that runs; a wrong path looks the same.
        raise RenderRefused("RenderFailed", "there is no object in the manifests; check the path")
    return found


def _of_file(path: str, content: bytes) -> Iterator[Object]:
    try:
        documents = yaml_reader.read_all(content, max_bytes=MOST_BYTES)
    except ValueError as error:
        raise RenderRefused("RenderFailed", f"{path}: {error}") from error
    for number, document in enumerate(documents, 1):
        where = f"{path}, document {number}" if len(documents) > 1 else path
        yield from _unfolded(document, where)


def _unfolded(document: JSON, where: str) -> Iterator[Object]:
    if document is None:
        return
    if not isinstance(document, dict) or not all(
        isinstance(document.get(name), str) and document[name] for name in ("apiVersion", "kind")
    ):
        raise RenderRefused(
            "RenderFailed", f"{where} is no Kubernetes object: it needs apiVersion and kind"
        )
    if _is_list(document):
        for index, item in enumerate(_items(document, where)):
            yield from _unfolded(item, f"{where}, item {index + 1}")
        return
    if not _is_named(document):
        kind = document["kind"][:_MOST_CHARS]
        raise RenderRefused(
            "RenderFailed", f"{where}: {kind} has no metadata.name that is a text; give it one"
        )
    yield document


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
