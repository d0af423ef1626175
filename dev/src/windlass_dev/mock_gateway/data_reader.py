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
a test that wants a resource read as one puts it there.
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
"""What a scan of each kind reads, relative to the data directory."""

_CHUNK = 1024 * 1024
_STORE = ".resources"


@dataclass(frozen=True, slots=True)
class TornRead:
    """One thing that a reader should never see."""

    path: str
    problem: str


@dataclass(slots=True)
class DataSnapshot:
    """What one scan saw: digests by data-relative path, and everything torn."""

    files: dict[str, str] = field(default_factory=dict)
    torn: list[TornRead] = field(default_factory=list)
    projects: dict[str, bool] = field(default_factory=dict)
    """Projects whose project.json could be read, and whether they are enabled."""


def read_data(data: Path, kind: str) -> DataSnapshot:
    """Read everything of `kind`, directory by directory."""
    reading = DataSnapshot()
    for directory, names in _directories(data / SCAN_KINDS[kind]):
        contents = {name: _read_file(data, directory / name, reading) for name in names}
        relative = directory.relative_to(data).as_posix()
        _check_resource(relative, contents.get("resource.json"), reading)
        if kind == "projects" and directory.parent == data / "projects":
            _add_project(directory.name, contents.get("project.json"), reading)
    return reading


def _directories(root: Path) -> Iterator[tuple[Path, list[str]]]:
    for place, directories, names in os.walk(root):
        directories[:] = sorted(name for name in directories if name != _STORE)
        directory = Path(place)
        yield directory, sorted(name for name in names if not (directory / name).is_symlink())


def _read_file(data: Path, path: Path, reading: DataSnapshot) -> Any:
    """The document in a `.json` file, else None; digests and problems go into `reading`."""
    relative = path.relative_to(data).as_posix()
    try:
        digest, content, changed = _hash_file(path, keep=path.suffix == ".json")
    except FileNotFoundError:
        reading.torn.append(TornRead(relative, "vanished"))
        return None
    reading.files[relative] = digest
    if changed:
        reading.torn.append(TornRead(relative, "changed"))
    return _parse_json(relative, content, reading) if content is not None else None


def _hash_file(path: Path, *, keep: bool) -> tuple[str, bytes | None, bool]:
    digest, kept, size = hashlib.sha256(), [], 0
    with path.open("rb") as file:
        before = os.fstat(file.fileno())
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            if keep:
                kept.append(chunk)
        after = os.fstat(file.fileno())
    changed = (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)
    content = b"".join(kept) if keep else None
    return digest.hexdigest(), content, changed or size != after.st_size


def _parse_json(relative: str, content: bytes, reading: DataSnapshot) -> Any:
    try:
        return msgspec.json.decode(content.removeprefix(b"\xef\xbb\xbf"))
    except msgspec.DecodeError:
        reading.torn.append(TornRead(relative, "unparseable"))
        return None


def _check_resource(directory: str, resource: Any, reading: DataSnapshot) -> None:
    if not isinstance(resource, dict):
        return
    listed = resource.get("files")
    for name in listed if isinstance(listed, list) else []:
        if f"{directory}/{name}" not in reading.files:
            reading.torn.append(TornRead(f"{directory}/{name}", "missing"))
    attributes = resource.get("attributes")
    digests = attributes.get("filesSha256") if isinstance(attributes, dict) else None
    for name, digest in digests.items() if isinstance(digests, dict) else ():
        if reading.files.get(f"{directory}/{name}", digest) != digest:
            reading.torn.append(TornRead(f"{directory}/{name}", "mismatch"))


def _add_project(name: str, project: Any, reading: DataSnapshot) -> None:
    if isinstance(project, dict):
        reading.projects[name] = project.get("enabled") is not False
