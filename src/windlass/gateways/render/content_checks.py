"""Checks rendered contents, and the resulting tree, before any file is written.

JSON files that the gateway reads must be valid: an invalid one is an error and stops the sync, as
is a config-mode.json that makes its collection its own parent. Other `*.json` belong to their
authors, so invalid JSON there is a warning. So is what the gateway would complain about itself: a
missing payload that a resource.json lists, a collection without its config-mode.json.

Pure.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from windlass.gateways.render import json_edit, json_tokens
from windlass.gateways.render.file_renderer import is_resource_file
from windlass.gateways.render.json_tokens import STRING, InvalidJson
from windlass.gateways.tree.live_tree import unstamped_digest
from windlass.gateways.tree.manifest import ContentFacts

GATEWAY_FILES = frozenset(
    (
        "config.json",
        "resource.json",
        "project.json",
        "config-mode.json",
        "unary-resource.json",
        "tags.json",
        "udts.json",
    )
)
MODE_FILE = "config-mode.json"
COLLECTIONS = "config/resources/"
RUNTIME_STORE = ".resources"


@dataclass(frozen=True, slots=True)
class ContentFinding:
    """One finding about one file."""

    level: Literal["error", "warning"]  # an error refuses the sync
    reason: str  # of the refusal
    path: str  # relative to the data directory
    message: str  # for users
    line: int = 0  # from 1; 0 if unknown
    column: int = 0  # from 1; 0 if unknown

    def __str__(self) -> str:
        position = f":{self.line}:{self.column}" if self.line else ""
        return f"{self.path}{position}: {self.message}"


def check_content(path: str, content: bytes) -> tuple[ContentFinding, ...]:
    """The findings about `content` as the file at `path`."""
    if RUNTIME_STORE in path.split("/"):
        # Layouts have no such path: this is a second guard.
        message = "internal error: a layout contains the gateway's own store"
        return (ContentFinding("error", "StagingDirectoryContainsRuntimeFiles", path, message),)
    if not path.endswith(".json"):
        return ()
    try:
        json_tokens.check_json(content)
    except InvalidJson as fault:
        level: Literal["error", "warning"] = "error" if is_gateway_file(path) else "warning"
        position = fault.line, fault.column
        return (
            ContentFinding(
                level, "ConfigSyntaxError", path, f"invalid JSON: {fault.message}", *position
            ),
        )
    return tuple(_own_parent(path, content))


def _own_parent(path: str, content: bytes) -> Iterator[ContentFinding]:
    """An error if `content` is the config-mode.json of a collection that it names as its parent.

    Layouts omit that file of an overlay by the name of its directory; this is about its content.
    The path may have had another file before, so leaving it out now could lose that one.
    """
    folder, name = posixpath.split(path)
    collection = folder.removeprefix(COLLECTIONS)
    if name != MODE_FILE or folder != COLLECTIONS + collection or "/" in collection:
        return
    root = json_edit.find_containers(content, [("parent",)]).get(())
    for child in root.children if root is not None else ():
        if child.step != "parent" or child.value.kind != STRING:
            continue
        if json_edit.decode_string(content, child.value) == collection:
            message = (
                f'parent "{collection}" is the collection itself; set another parent, or, if a '
                f"mode is mapped onto {collection}, remove this file from its source"
            )
            yield ContentFinding("error", "ConfigSyntaxError", path, message)


def is_gateway_file(path: str) -> bool:
    """Whether the gateway itself reads the file at `path`."""
    return posixpath.basename(path) in GATEWAY_FILES


def payload_names(resource_json: bytes) -> tuple[str, ...]:
    """The names in the list `files` of a resource.json; empty if it has no such list."""
    try:
        containers = json_edit.find_containers(resource_json, [("files", 0)])
    except InvalidJson:
        return ()
    files = containers.get(("files",))
    if files is None or files.kind != "[":
        return ()
    values = (child.value for child in files.children)
    return tuple(
        json_edit.decode_string(resource_json, value) for value in values if value.kind == STRING
    )


def content_facts(path: str, content: bytes, warnings: tuple[str, ...]) -> ContentFacts | None:
    """The facts about `content` that a manifest records; None if there are none."""
    if is_resource_file(path):
        return ContentFacts(payload_names(content), unstamped_digest(content), warnings)
    return ContentFacts(warnings=warnings) if warnings else None


def check_tree(
    paths: Collection[str], listed: Mapping[str, Iterable[str]]
) -> tuple[ContentFinding, ...]:
    """The findings about missing files; `paths` are all files after the sync.

    `listed` has the `payload_names` of each resource.json to check, by its path.
    """
    present = paths if isinstance(paths, (set, frozenset, Mapping)) else frozenset(paths)
    return (*_missing_payloads(present, listed), *_collections_without_mode_file(present))


def _missing_payloads(
    present: Collection[str], listed: Mapping[str, Iterable[str]]
) -> Iterator[ContentFinding]:
    # Nearly all payloads exist, in every sync: only the missing ones are sorted.
    absent = []
    for path, names in listed.items():
        folder = path[: path.rfind("/") + 1]
        absent += [(path, name) for name in names if folder + name not in present]
    for path, name in sorted(absent):
        message = f"lists file {name[:255]!r}, which is missing"
        yield ContentFinding("warning", "PayloadMissing", path, message)


def _collections_without_mode_file(present: Collection[str]) -> Iterator[ContentFinding]:
    below = (path[len(COLLECTIONS) :] for path in present if path.startswith(COLLECTIONS))
    for collection in sorted({name.partition("/")[0] for name in below if "/" in name}):
        path = f"{COLLECTIONS}{collection}"
        if f"{path}/{MODE_FILE}" not in present:
            message = f"{MODE_FILE} is missing, so the gateway ignores this collection"
            yield ContentFinding("warning", "ConfigModeMissing", path, message)
