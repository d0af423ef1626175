"""The manifest: which files the last sync left on a gateway, stored on its data volume.

Every managed file is listed with the digest it had when it was written, the blob and the recipe
it was made of, and the stat it had afterwards. The encoding is deterministic, and at most some
300 bytes per file. A schema that is newer than ours is never guessed at.

Pure.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from windlass.gateways.tree import path_rules
from windlass.gateways.tree.path_rules import SyncRefused

MANIFEST_SCHEMA = 1


class FileStat(msgspec.Struct, frozen=True, array_like=True):
    """What tells a touched file from an untouched one without reading it."""

    size: int
    mtime_ns: int
    inode: int


class ContentFacts(msgspec.Struct, frozen=True, array_like=True):
    """What was seen in a content when it was made, so that nobody has to read it again.

    `lists` are the payloads that a resource.json names, `calm` is its digest without the
    gateway's own stamps, and `warnings` are those about this file alone.
    """

    lists: tuple[str, ...] = ()
    calm: str = ""
    warnings: tuple[str, ...] = ()


class ManifestEntry(msgspec.Struct, frozen=True, array_like=True):
    """One file as we wrote it.

    `transforms` names what its recipe really changed, `named` says that it holds a
    systemName, changed or not. `about` is None where there is nothing to say, and in entries
    of versions that did not say it.
    """

    sha256: str
    size: int
    blob: str
    recipe: str = ""
    stat: FileStat | None = None
    transforms: tuple[str, ...] = ()
    named: bool = False
    about: ContentFacts | None = None


class ManagedRoot(msgspec.Struct, frozen=True, order=True):
    """A place we manage: a directory with all that is in it, or one single file (MAP-3)."""

    path: str
    kind: Literal["dir", "file"]

    def holds(self, path: str) -> bool:
        return path == self.path or (self.kind == "dir" and path_rules.is_below(path, self.path))


class Manifest(msgspec.Struct, frozen=True):
    """The managed tree of one gateway after its last apply.

    `excludes` are the patterns that were in force, `adopted` the files that were there before
    their directory became managed; both are None in manifests of versions without them.
    """

    commit: str
    tree: str = ""
    profile_hash: str = ""
    routing_hash: str = ""
    roots: tuple[ManagedRoot, ...] = ()
    files: dict[str, ManifestEntry] = {}
    excludes: tuple[str, ...] | None = None
    adopted: tuple[str, ...] | None = None
    schema: int = MANIFEST_SCHEMA

    @property
    def directories(self) -> tuple[str, ...]:
        return tuple(root.path for root in self.roots if root.kind == "dir")


class _ManifestHeader(msgspec.Struct):
    schema: int


_encoder = msgspec.json.Encoder(order="sorted")
_header_decoder = msgspec.json.Decoder(_ManifestHeader)
_decoder = msgspec.json.Decoder(Manifest)


def encode(manifest: Manifest) -> bytes:
    """The bytes to keep; equal manifests give equal bytes."""
    # The encoder's own sorting takes ten times as long where the order is nearly right.
    ordered = {path: manifest.files[path] for path in sorted(manifest.files)}
    return _encoder.encode(msgspec.structs.replace(manifest, files=ordered))


def decode(data: bytes) -> Manifest:
    """The manifest in `data`; `Refused` for a newer schema, ValueError for anything else."""
    if _header_decoder.decode(data).schema > MANIFEST_SCHEMA:
        raise SyncRefused(
            "VolumeLocked",
            "",
            "the state on the data volume was written by a newer version of windlass; "
            "nothing is written until the agent is at least as new",
        )
    return _decoder.decode(data)
