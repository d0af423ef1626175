"""What a manifest says about a gateway's disk, in the few words that are asked for often.

A manifest may name tens of thousands of files; it is read when it changed, and only this
is kept of it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from windlass.gateways.decide.manifest import Manifest
from windlass.gateways.decide.next_step import Version


@dataclass(frozen=True, slots=True)
class Holding:
    """The tree on the disk; `tree_digest` is equal for equal trees.

    `adopted` counts the files that were there before their directory was synced.
    """

    version: Version
    files: int
    projects: tuple[str, ...]
    tree_digest: str
    adopted: int = 0


def of(manifest: Manifest | None) -> Holding | None:
    """What is on the disk; None before the first sync."""
    if manifest is None:
        return None
    return Holding(
        version=Version(manifest.commit, manifest.profile_hash),
        files=len(manifest.files),
        projects=_projects(manifest),
        tree_digest=tree_digest(manifest),
        adopted=len(manifest.adopted or ()),
    )


def tree_digest(manifest: Manifest) -> str:
    """One digest over all paths and contents."""
    digest = hashlib.sha256()
    for path in sorted(manifest.files):
        digest.update(f"{path}\0{manifest.files[path].sha256}\n".encode())
    return digest.hexdigest()


def _projects(manifest: Manifest) -> tuple[str, ...]:
    parts = (path.split("/", 2) for path in manifest.files if path.startswith("projects/"))
    return tuple(sorted({part[1] for part in parts if len(part) > 2}))
