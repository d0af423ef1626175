"""Whether what was made may go onto a gateway.

The gateway's own JSON files must be JSON: one that is not is an error and nothing of the
sync is written. Other `*.json` belong to their authors, so a fault there is a warning, as is
what the gateway would complain about itself: a payload that a resource.json lists and that
is not there, a collection without its config-mode.json.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from windlass.gateways.decide import json_spans, json_tokens
from windlass.gateways.decide.drift import calm_digest
from windlass.gateways.decide.json_tokens import STRING, JsonRefused
from windlass.gateways.decide.manifest import About
from windlass.gateways.decide.rendering import is_resource

STRICT = frozenset(
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
class Finding:
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


def check(path: str, content: bytes) -> tuple[Finding, ...]:
    """What is wrong with `content` as the file at `path`."""
    if RUNTIME_STORE in path.split("/"):
        # Layouts never hold such a path: if one arrives, a guard before us is broken.
        message = "the gateway's own store must not be written to; this is a fault of windlass"
        return (Finding("error", "StagingDirectoryContainsRuntimeFiles", path, message),)
    if not path.endswith(".json"):
        return ()
    try:
        json_tokens.check(content)
    except JsonRefused as fault:
        level: Literal["error", "warning"] = "error" if is_strict(path) else "warning"
        place = fault.line, fault.column
        return (Finding(level, "ConfigSyntaxError", path, f"not JSON: {fault.message}", *place),)
    return ()


def is_strict(path: str) -> bool:
    """Whether the gateway itself reads the file at `path`."""
    return posixpath.basename(path) in STRICT


def listed_files(resource_json: bytes) -> tuple[str, ...]:
    """The names under `files` of a resource.json; none where it has no such list of texts."""
    try:
        known = json_spans.containers(resource_json, [("files", 0)])
    except JsonRefused:
        return ()
    files = known.get(("files",))
    if files is None or files.kind != "[":
        return ()
    values = (child.value for child in files.children)
    return tuple(
        json_spans.string(resource_json, value) for value in values if value.kind == STRING
    )


def about(path: str, content: bytes, warnings: tuple[str, ...]) -> About | None:
    """What a manifest remembers of `content`; None where there is nothing to remember."""
    if is_resource(path):
        return About(listed_files(content), calm_digest(content), warnings)
    return About(warnings=warnings) if warnings else None


def check_tree(found: Collection[str], listed: Mapping[str, Iterable[str]]) -> tuple[Finding, ...]:
    """What is missing among `found`, all files that will be there.

    `listed` has the `listed_files` of each resource.json to look at, by its path.
    """
    present = found if isinstance(found, (set, frozenset, Mapping)) else frozenset(found)
    return (*_absent_payloads(present, listed), *_modeless(present))


def _absent_payloads(
    present: Collection[str], listed: Mapping[str, Iterable[str]]
) -> Iterator[Finding]:
    # Nearly all of them are there, in every sync: only what is not is put in order.
    absent = []
    for path, names in listed.items():
        folder = path[: path.rfind("/") + 1]
        absent += [(path, name) for name in names if folder + name not in present]
    for path, name in sorted(absent):
        message = f"lists the file {name[:255]!r}, which is not there"
        yield Finding("warning", "PayloadMissing", path, message)


def _modeless(present: Collection[str]) -> Iterator[Finding]:
    below = (path[len(COLLECTIONS) :] for path in present if path.startswith(COLLECTIONS))
    for collection in sorted({name.partition("/")[0] for name in below if "/" in name}):
        path = f"{COLLECTIONS}{collection}"
        if f"{path}/{MODE_FILE}" not in present:
            message = f"has no {MODE_FILE}, so the gateway does not see this collection"
            yield Finding("warning", "ConfigModeMissing", path, message)
