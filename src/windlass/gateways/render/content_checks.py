"""Checks rendered contents, and the resulting tree, before anything is written.

The gateway's own JSON files must be JSON: one that is not is an error and nothing of the sync is
written. Other `*.json` belong to their authors, so a fault there is a warning, as is what the
gateway would complain about itself: a payload that a resource.json lists and that is missing, a
collection without its config-mode.json.

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
    """One fault in one file; line and column are 0 where they say nothing."""

    level: Literal["error", "warning"]
    reason: str
    path: str
    message: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        place = f":{self.line}:{self.column}" if self.line else ""
        return f"{self.path}{place}: {self.message}"


def check_content(path: str, content: bytes) -> tuple[ContentFinding, ...]:
    """What is wrong with `content` as the file at `path`."""
    if RUNTIME_STORE in path.split("/"):
        # Layouts never hold such a path: if one arrives, a guard before us is broken.
        message = "the gateway's own store must not be written to; this is a fault of windlass"
        return (ContentFinding("error", "StagingDirectoryContainsRuntimeFiles", path, message),)
    if not path.endswith(".json"):
        return ()
    try:
        json_tokens.check_json(content)
    except InvalidJson as fault:
        level: Literal["error", "warning"] = "error" if is_gateway_file(path) else "warning"
        place = fault.line, fault.column
        return (
            ContentFinding(level, "ConfigSyntaxError", path, f"not JSON: {fault.message}", *place),
        )
    return ()


def is_gateway_file(path: str) -> bool:
    """Whether the gateway itself reads the file at `path`."""
    return posixpath.basename(path) in GATEWAY_FILES


def payload_names(resource_json: bytes) -> tuple[str, ...]:
    """The names under `files` of a resource.json; none where it has no such list of texts."""
    try:
        known = json_edit.find_containers(resource_json, [("files", 0)])
    except InvalidJson:
        return ()
    files = known.get(("files",))
    if files is None or files.kind != "[":
        return ()
    values = (child.value for child in files.children)
    return tuple(
        json_edit.decode_string(resource_json, value) for value in values if value.kind == STRING
    )


def content_facts(path: str, content: bytes, warnings: tuple[str, ...]) -> ContentFacts | None:
    """What a manifest remembers of `content`; None where there is nothing to remember."""
    if is_resource_file(path):
        return ContentFacts(payload_names(content), unstamped_digest(content), warnings)
    return ContentFacts(warnings=warnings) if warnings else None


def check_tree(
    found: Collection[str], listed: Mapping[str, Iterable[str]]
) -> tuple[ContentFinding, ...]:
    """What is missing among `found`, all files that will be there.

    `listed` has the `payload_names` of each resource.json to look at, by its path.
    """
    present = found if isinstance(found, (set, frozenset, Mapping)) else frozenset(found)
    return (*_missing_payloads(present, listed), *_collections_without_mode_file(present))


def _missing_payloads(
    present: Collection[str], listed: Mapping[str, Iterable[str]]
) -> Iterator[ContentFinding]:
    # Nearly all of them are there, in every sync: only what is not is put in order.
    absent = []
    for path, names in listed.items():
        folder = path[: path.rfind("/") + 1]
        absent += [(path, name) for name in names if folder + name not in present]
    for path, name in sorted(absent):
        message = f"lists the file {name[:255]!r}, which is not there"
        yield ContentFinding("warning", "PayloadMissing", path, message)


def _collections_without_mode_file(present: Collection[str]) -> Iterator[ContentFinding]:
    below = (path[len(COLLECTIONS) :] for path in present if path.startswith(COLLECTIONS))
    for collection in sorted({name.partition("/")[0] for name in below if "/" in name}):
        path = f"{COLLECTIONS}{collection}"
        if f"{path}/{MODE_FILE}" not in present:
            message = f"has no {MODE_FILE}, so the gateway does not see this collection"
            yield ContentFinding("warning", "ConfigModeMissing", path, message)
