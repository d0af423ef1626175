"""What lies on the gateway's disk, as far as a plan needs to know.

`lookups` says where to look: managed directories are walked, single files and the
directories above managed places are only looked at. Whoever looks never follows a
symlink and never enters a protected path; both are reported in `others`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from windlass.gateways.decide import paths
from windlass.gateways.decide.manifest import Manifest, Root, Stat

Other = Literal["symlink", "protected", "special"]


@dataclass(frozen=True, slots=True)
class Live:
    """Plain files, directories and everything else, by data-relative path."""

    files: Mapping[str, Stat] = field(default_factory=dict)
    directories: frozenset[str] = frozenset()
    others: Mapping[str, Other] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lookups:
    """Directories to walk, and paths to look at without walking; both sorted."""

    walk: tuple[str, ...]
    look: tuple[str, ...]


def lookups(roots: Iterable[Root], manifest: Manifest | None) -> Lookups:
    """Where to look for a plan that manages `roots` after one that managed the manifest's."""
    known = {*roots, *(manifest.roots if manifest is not None else ())}
    walk = outermost(root.path for root in known if root.kind == "dir")
    above = {folder for root in known for folder in paths.parents(root.path)}
    single = {root.path for root in known if root.kind == "file"}
    outside = {path for path in above | single if not covered(path, walk)}
    return Lookups(tuple(sorted(walk)), tuple(sorted(outside)))


def outermost(folders: Iterable[str]) -> frozenset[str]:
    """The folders that lie in no other of them."""
    known = frozenset(folders)
    return frozenset(one for one in known if known.isdisjoint(paths.parents(one)))


def covered(path: str, folders: frozenset[str]) -> bool:
    """Whether `path` is one of `folders` or lies in one."""
    return path in folders or not folders.isdisjoint(paths.parents(path))
