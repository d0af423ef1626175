"""The steps of a plan and their order (APP-6).

1. obstacles are removed: files, then directories, the deepest first;
2. directories and contents are written in mapping order, but a resource.json or project.json (a
   descriptor) after everything in or below its directory, because it announces that;
3. deletes, descriptors first for the same reason;
4. directories that the deletes left empty are removed, the deepest first.

So a gateway that reads in between never sees a descriptor without its payload. The list can be run
from its start again at any time: every step is idempotent.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from windlass.gateways.tree import path_rules
from windlass.gateways.tree.changes import RenderedDigest
from windlass.gateways.tree.layout import Layout, LayoutFile

_DESCRIPTORS = frozenset(("resource.json", "project.json"))
_SortKey: TypeAlias = tuple[tuple[int, str], ...]


class PlanStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step; a put names the staged content by its hash, other steps have a path only.

    `mkdir` and `put` succeed if the result exists, `delete` and `rmdir` if the path is gone;
    `rmdir` keeps a directory that is no longer empty.
    """

    op: Literal["mkdir", "put", "delete", "rmdir"]  # kind of step
    path: str  # relative to the data directory
    sha256: str = ""  # of the new content
    size: int = 0  # of the new content, in bytes
    source: str = ""  # path in the repository
    blob: str = ""  # Git object id of the source
    transforms: tuple[str, ...] = ()  # what the recipe changed
    why: str = ""  # for users


def put_step(file: LayoutFile, digest: RenderedDigest, why: str) -> PlanStep:
    """The step that writes the content of `file`."""
    return PlanStep(
        "put",
        file.path,
        digest.sha256,
        digest.size,
        file.source,
        file.blob,
        digest.transforms,
        f"{why}: {file.origin}",
    )


def add_missing_directories(
    puts: Iterable[PlanStep], existing: frozenset[str]
) -> Iterator[PlanStep]:
    """`puts` with a `mkdir` for every missing directory just before its first use."""
    present = set(existing)
    for put in puts:
        missing = [folder for folder in path_rules.parents(put.path) if folder not in present]
        for folder in reversed(missing):
            present.add(folder)
            yield PlanStep("mkdir", folder)
        yield put


def sort_puts(puts: Iterable[PlanStep], layout: Layout) -> list[PlanStep]:
    """`puts` in mapping order, descriptors after everything they announce."""
    steps = list(puts)
    last: dict[str, int] = {}
    for put in steps:
        order = layout.files[put.path].order
        for folder in path_rules.parents(put.path):
            last[folder] = max(order, last.get(folder, 0))

    def key(put: PlanStep) -> tuple[int, _SortKey]:
        announces = _is_descriptor(put.path)
        order = last.get(path_rules.parent(put.path)) if announces else None
        position = layout.files[put.path].order if order is None else order
        return position, _sort_key(put.path, 0, 1 if announces else 0)

    return sorted(steps, key=key)


def delete_steps(reasons: Mapping[str, str]) -> list[PlanStep]:
    """The deletes, descriptors first."""

    def key(path: str) -> _SortKey:
        return _sort_key(path, 1, 0 if _is_descriptor(path) else 1)

    return [PlanStep("delete", path, why=reasons[path]) for path in sorted(reasons, key=key)]


def rmdir_steps(folders: Iterable[str], why: str) -> list[PlanStep]:
    """The directories to remove, the deepest first."""
    deepest_first = sorted(folders, key=lambda path: (-path.count("/"), path))
    return [PlanStep("rmdir", path, why=why) for path in deepest_first]


def _is_descriptor(path: str) -> bool:
    return path_rules.base_name(path) in _DESCRIPTORS


def _sort_key(path: str, folder: int, own: int) -> _SortKey:
    *above, name = path.split("/")
    return (*((folder, part) for part in above), (own, name))
