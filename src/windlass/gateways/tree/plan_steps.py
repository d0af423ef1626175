"""The steps of a plan and their order (APP-6).

1. what is in the way of another kind goes: files, then directories, the deepest first;
2. directories and contents come in mapping order, but a resource.json or project.json (a
   descriptor) after all that lies with it or below it, because it announces them;
3. deletes, where descriptors go first for the same reason;
4. directories that the deletes left empty go, the deepest first.

So a gateway that reads in between never sees a descriptor whose payload is not there. The list
can be carried out from its start again at any time: a step that is already done is done.

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
    """One step; a put names the staged content by its digest, the rest a path only.

    `mkdir` and `put_step` succeed where the result is there, `delete` and `rmdir` where the path
    is gone; `rmdir` leaves a directory alone that somebody filled meanwhile.
    """

    op: Literal["mkdir", "put", "delete", "rmdir"]
    path: str
    sha256: str = ""
    size: int = 0
    source: str = ""
    blob: str = ""
    transforms: tuple[str, ...] = ()
    why: str = ""


def put_step(wanted: LayoutFile, digest: RenderedDigest, why: str) -> PlanStep:
    """The step that gives `wanted` its content."""
    return PlanStep(
        "put",
        wanted.path,
        digest.sha256,
        digest.size,
        wanted.source,
        wanted.blob,
        digest.transforms,
        f"{why}: {wanted.origin}",
    )


def add_missing_directories(
    puts: Iterable[PlanStep], existing: frozenset[str]
) -> Iterator[PlanStep]:
    """`puts` with every missing directory made just before it is needed."""
    there = set(existing)
    for one in puts:
        missing = [folder for folder in path_rules.parents(one.path) if folder not in there]
        for folder in reversed(missing):
            there.add(folder)
            yield PlanStep("mkdir", folder)
        yield one


def sort_puts(puts: Iterable[PlanStep], layout: Layout) -> list[PlanStep]:
    """Mapping by mapping, announcing files after all that they speak of."""
    known = list(puts)
    last: dict[str, int] = {}
    for one in known:
        order = layout.files[one.path].order
        for folder in path_rules.parents(one.path):
            last[folder] = max(order, last.get(folder, 0))

    def key(one: PlanStep) -> tuple[int, _SortKey]:
        announces = _is_descriptor(one.path)
        order = last.get(path_rules.parent(one.path)) if announces else None
        place = layout.files[one.path].order if order is None else order
        return place, _sort_key(one.path, 0, 1 if announces else 0)

    return sorted(known, key=key)


def delete_steps(doomed: Mapping[str, str]) -> list[PlanStep]:
    """The deletes, announcing files first."""

    def key(path: str) -> _SortKey:
        return _sort_key(path, 1, 0 if _is_descriptor(path) else 1)

    return [PlanStep("delete", path, why=doomed[path]) for path in sorted(doomed, key=key)]


def rmdir_steps(folders: Iterable[str], why: str) -> list[PlanStep]:
    """The directories to remove, the deepest first."""
    deepest_first = sorted(folders, key=lambda path: (-path.count("/"), path))
    return [PlanStep("rmdir", path, why=why) for path in deepest_first]


def _is_descriptor(path: str) -> bool:
    return path_rules.base_name(path) in _DESCRIPTORS


def _sort_key(path: str, folder: int, own: int) -> _SortKey:
    *above, name = path.split("/")
    return (*((folder, part) for part in above), (own, name))
