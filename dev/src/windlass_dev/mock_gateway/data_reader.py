"""Reads a gateway's data directory the way a scan does, and detects torn reads.

Everything below the kind's directory is read and hashed, apart from the gateway's own
`.resources` store; links are not followed. A torn read is one of:

| Problem | Detected |
|---|---|
| changed | a file was written in place while it was read |
| vanished | a file was listed, then gone |
| unparseable | a `.json` file is not JSON, such as a short one |
| missing | a resource.json lists a file that is not there |
| mismatch | a file's digest is not the one in its resource.json |

The last needs `attributes.filesSha256` (name to hex digest), which no gateway writes:
tests add it to a resource whose files must be read together.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

SCAN_KINDS = {"projects": "projects", "config": "config/resources"}
"""The directory that a scan of each kind reads, relative to the data directory."""

_CHUNK = 1024 * 1024
_STORE = ".resources"


@dataclass(frozen=True, slots=True)
class TornRead:
    """A file that was read while it was being changed."""

    path: str
    """Relative to the data directory."""
    problem: str
    """The first column of the table above."""


@dataclass(slots=True)
class DataSnapshot:
    """The result of one scan."""

    files: dict[str, str] = field(default_factory=dict)
    """Sha256 in hexadecimal by data-relative path."""
    torn: list[TornRead] = field(default_factory=list)
    """Torn reads, in the order of reading."""
    projects: dict[str, bool] = field(default_factory=dict)
    """Projects whose project.json could be read, and whether they are enabled."""


def read_data(data: Path, kind: str) -> DataSnapshot:
    """Read everything of `kind`, directory by directory."""
    snapshot = DataSnapshot()
    for directory, names in _directories(data / SCAN_KINDS[kind]):
        contents = {name: _read_file(data, directory / name, snapshot) for name in names}
        relative = directory.relative_to(data).as_posix()
        _check_resource(relative, contents.get("resource.json"), snapshot)
        if kind == "projects" and directory.parent == data / "projects":
            _add_project(directory.name, contents.get("project.json"), snapshot)
    return snapshot


def _directories(root: Path) -> Iterator[tuple[Path, list[str]]]:
    for current, directories, names in os.walk(root):
        directories[:] = sorted(name for name in directories if name != _STORE)
        directory = Path(current)
        yield directory, sorted(name for name in names if not (directory / name).is_symlink())


def _read_file(data: Path, path: Path, snapshot: DataSnapshot) -> Any:
    """The document in a `.json` file, else None; digest and torn read go into `snapshot`."""
    relative = path.relative_to(data).as_posix()
    try:
        digest, content, changed = _hash_file(path, keep=path.suffix == ".json")
    except FileNotFoundError:
        snapshot.torn.append(TornRead(relative, "vanished"))
        return None
    snapshot.files[relative] = digest
    if changed:
        snapshot.torn.append(TornRead(relative, "changed"))
    return _parse_json(relative, content, snapshot) if content is not None else None


def _hash_file(path: Path, *, keep: bool) -> tuple[str, bytes | None, bool]:
    digest, chunks, size = hashlib.sha256(), [], 0
    with path.open("rb") as file:
        before = os.fstat(file.fileno())
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            if keep:
                chunks.append(chunk)
        after = os.fstat(file.fileno())
    # Also by size: a file may have grown after its last chunk was read.
    changed = (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)
    content = b"".join(chunks) if keep else None
    return digest.hexdigest(), content, changed or size != after.st_size


def _parse_json(relative: str, content: bytes, snapshot: DataSnapshot) -> Any:
    try:
        return msgspec.json.decode(content.removeprefix(b"\xef\xbb\xbf"))
    except msgspec.DecodeError:
        snapshot.torn.append(TornRead(relative, "unparseable"))
        return None


def _check_resource(directory: str, resource: Any, snapshot: DataSnapshot) -> None:
    if not isinstance(resource, dict):
        return
    listed = resource.get("files")
    for name in listed if isinstance(listed, list) else []:
        if f"{directory}/{name}" not in snapshot.files:
            snapshot.torn.append(TornRead(f"{directory}/{name}", "missing"))
    attributes = resource.get("attributes")
    digests = attributes.get("filesSha256") if isinstance(attributes, dict) else None
    for name, digest in digests.items() if isinstance(digests, dict) else ():
        if snapshot.files.get(f"{directory}/{name}", digest) != digest:
            snapshot.torn.append(TornRead(f"{directory}/{name}", "mismatch"))


def _add_project(name: str, project: Any, snapshot: DataSnapshot) -> None:
    if isinstance(project, dict):
        snapshot.projects[name] = project.get("enabled") is not False
