"""The files on the gateway's disk, and how they differ from the manifest (DRF-1, DRF-2).

`survey_scope` lists what to read: managed directories are walked; for single files and the
directories above managed roots a stat is enough. A survey never follows a symlink and never
enters a protected path; both are reported in `others`.

A file counts as modified only when its content is known to differ: a new stat alone is a reason
to hash it. A resource.json in which only `attributes.lastModification*` differ was stamped by
the gateway itself: noise, never an event, never repaired.

Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import orjson

from windlass.gateways.tree import path_rules
from windlass.gateways.tree.manifest import FileStat, ManagedRoot, Manifest
from windlass.objects.names import JSON

OtherKind = Literal["symlink", "protected", "special"]


@dataclass(frozen=True, slots=True)
class LiveTree:
    """Plain files, directories and everything else, by data-relative path."""

    files: Mapping[str, FileStat] = field(default_factory=dict)
    directories: frozenset[str] = frozenset()
    others: Mapping[str, OtherKind] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SurveyScope:
    """Directories to walk, and paths to stat without walking; both sorted."""

    walk: tuple[str, ...]
    stat_only: tuple[str, ...]


def survey_scope(roots: Iterable[ManagedRoot], manifest: Manifest | None) -> SurveyScope:
    """What to read for a plan that manages `roots` after one that managed the manifest's."""
    all_roots = {*roots, *(manifest.roots if manifest is not None else ())}
    walk = outermost_folders(root.path for root in all_roots if root.kind == "dir")
    above = {folder for root in all_roots for folder in path_rules.parents(root.path)}
    single = {root.path for root in all_roots if root.kind == "file"}
    outside = {path for path in above | single if not is_within(path, walk)}
    return SurveyScope(tuple(sorted(walk)), tuple(sorted(outside)))


def outermost_folders(folders: Iterable[str]) -> frozenset[str]:
    """The folders that are not inside another one of them."""
    candidates = frozenset(folders)
    return frozenset(
        folder for folder in candidates if candidates.isdisjoint(path_rules.parents(folder))
    )


def is_within(path: str, folders: frozenset[str]) -> bool:
    """Whether `path` is one of `folders` or lies in one."""
    return path in folders or not folders.isdisjoint(path_rules.parents(path))


_STAMP_PREFIX = "lastModification"
_DIGEST_LENGTH = 32


@dataclass(frozen=True, slots=True)
class FileDrift:
    """Differing paths, sorted; `noise` (the gateway's own stamps) is not drift."""

    modified: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()

    @property
    def has_drift(self) -> bool:
        return bool(self.modified or self.missing or self.extra)


def drift_suspects(
    manifest: Manifest, stats: Mapping[str, FileStat], *, everything: bool = False
) -> tuple[str, ...]:
    """The files to hash: those with another stat than the manifest's, or all existing ones."""
    return tuple(
        path
        for path in sorted(manifest.files)
        if path in stats and (everything or manifest.files[path].stat != stats[path])
    )


def find_drift(
    manifest: Manifest,
    stats: Mapping[str, FileStat],
    hashes: Mapping[str, str],
    extras: Iterable[str],
    stamped: Collection[str] = (),
) -> FileDrift:
    """The drift, given the hashes of all suspects; `stamped` are those that are only noise.

    `extras` are live files below managed directories that are neither in the manifest nor
    excluded nor protected.
    """
    entries = manifest.files
    changed = [
        path for path in sorted(hashes) if path in entries and hashes[path] != entries[path].sha256
    ]
    return FileDrift(
        modified=tuple(path for path in changed if path not in stamped),
        missing=tuple(path for path in sorted(entries) if path not in stats),
        extra=tuple(sorted(path for path in extras if path not in entries)),
        noise=tuple(path for path in changed if path in stamped),
    )


def differs_in_stamps_only(synced: bytes, live: bytes) -> bool:
    """Whether two contents of a resource.json differ in the gateway's stamps only."""
    try:
        return _without_stamps(orjson.loads(synced)) == _without_stamps(orjson.loads(live))
    except orjson.JSONDecodeError:
        return False


def unstamped_digest(content: bytes) -> str:
    """A digest of a resource.json without the gateway's stamps; empty if it is not JSON."""
    try:
        return hashlib.sha256(_without_stamps(orjson.loads(content))).hexdigest()[:_DIGEST_LENGTH]
    except orjson.JSONDecodeError:
        return ""


def _without_stamps(value: JSON) -> bytes:
    """The value without its stamps, as bytes: `1` and `true` are equal only as objects."""
    attributes = value.get("attributes") if isinstance(value, dict) else None
    if isinstance(value, dict) and isinstance(attributes, dict):
        unstamped = {
            name: item for name, item in attributes.items() if not name.startswith(_STAMP_PREFIX)
        }
        value = {**value, "attributes": unstamped}
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
