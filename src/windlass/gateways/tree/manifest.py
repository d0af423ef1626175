"""The manifest: which files the last sync left on a gateway, stored on its data volume.

Every managed file is listed with its hash when it was written, the blob and the recipe it was
rendered from, and its stat afterwards. The encoding is deterministic and takes up to about 300
bytes per file. A manifest with a newer schema is refused.

Pure.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from windlass.gateways.tree.path_rules import SyncRefused

MANIFEST_SCHEMA = 1


class FileStat(msgspec.Struct, frozen=True, array_like=True):
    """The stat of a file; equal stats mean an untouched file, without reading it."""

    size: int
    mtime_ns: int
    inode: int


class ContentFacts(msgspec.Struct, frozen=True, array_like=True):
    """Facts about a content, recorded when it was rendered so that it is not read again.

    `lists` are the payloads that a resource.json names, `calm` is its digest without the
    gateway's own stamps (empty if unknown), and `warnings` are those about this file alone.
    """

    lists: tuple[str, ...] = ()
    calm: str = ""
    warnings: tuple[str, ...] = ()


class ManifestEntry(msgspec.Struct, frozen=True, array_like=True):
    """One file as the sync wrote it."""

    sha256: str  # of the written content
    size: int  # in bytes
    blob: str  # Git object id of the source
    recipe: str = ""  # id of the recipe; empty for a plain copy
    stat: FileStat | None = None  # after the write; None until it is recorded
    transforms: tuple[str, ...] = ()  # what the recipe really changed
    named: bool = False  # the content has a systemName, changed or not
    about: ContentFacts | None = None  # None without facts, and in entries of older versions


class ManagedRoot(msgspec.Struct, frozen=True, order=True):
    """A managed path: a directory with everything in it, or a single file (MAP-3)."""

    path: str
    kind: Literal["dir", "file"]


class Manifest(msgspec.Struct, frozen=True):
    """The managed tree of one gateway after its last apply."""

    commit: str  # full id
    tree: str = ""  # Git object id of the commit's tree
    profile_hash: str = ""  # routing of the gateway
    routing_hash: str = ""  # routing of the IgnitionSync
    roots: tuple[ManagedRoot, ...] = ()  # managed directories and files
    files: dict[str, ManifestEntry] = {}  # by path relative to the data directory
    excludes: tuple[str, ...] | None = None  # patterns in force; None in old manifests
    # Files that existed before their directory became managed; None in old manifests.
    adopted: tuple[str, ...] | None = None
    # Paths in managed directories that are left to the gateway, as `Layout.omitted`.
    omitted: tuple[str, ...] = ()
    # The first warnings of the plan, and how many there were; both empty in old manifests.
    warnings: tuple[str, ...] = ()
    warning_count: int = 0
    schema: int = MANIFEST_SCHEMA  # a newer one is refused

    @property
    def directories(self) -> tuple[str, ...]:
        return tuple(root.path for root in self.roots if root.kind == "dir")


class _ManifestHeader(msgspec.Struct):
    schema: int


_encoder = msgspec.json.Encoder(order="sorted")
_header_decoder = msgspec.json.Decoder(_ManifestHeader)
_decoder = msgspec.json.Decoder(Manifest)


def encode(manifest: Manifest) -> bytes:
    """The manifest as JSON; equal manifests give equal bytes."""
    # The encoder's own sorting takes ten times as long if the paths are nearly sorted.
    ordered = {path: manifest.files[path] for path in sorted(manifest.files)}
    return _encoder.encode(msgspec.structs.replace(manifest, files=ordered))


def decode(data: bytes) -> Manifest:
    """The manifest in `data`; raises `SyncRefused` for a newer schema, ValueError if invalid."""
    if _header_decoder.decode(data).schema > MANIFEST_SCHEMA:
        raise SyncRefused(
            "VolumeLocked",
            "",
            "the state on the data volume was written by a newer version of windlass; "
            "upgrade the agent",
        )
    return _decoder.decode(data)


def changed_paths(before: Manifest | None, after: Manifest | None) -> list[str]:
    """The paths whose content differs between two manifests."""
    old = {path: entry.sha256 for path, entry in before.files.items()} if before else {}
    new = {path: entry.sha256 for path, entry in after.files.items()} if after else {}
    return [path for path in old.keys() | new.keys() if old.get(path) != new.get(path)]
