"""The steps of a plan and their order (APP-6).

1. what stands in the way of another kind goes: files, then directories, the deepest first;
2. directories and contents come in mapping order, but a resource.json or project.json
   after all that lies with it or below it, because it announces them;
3. deletes, where those files go first for the same reason;
4. directories that the deletes left empty go, the deepest first.

So a gateway that reads in between never sees a manifest of a resource whose payload is
not there. The list can be carried out from its start again at any time: a step that is
already done is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from windlass.gateways.decide import paths
from windlass.gateways.decide.changes import Digest
from windlass.gateways.decide.layout import Layout, Wanted

_ANNOUNCING = frozenset(("resource.json", "project.json"))
_Key: TypeAlias = tuple[tuple[int, str], ...]


class Op(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step; a put names the staged content by its digest, the rest a path only.

    `mkdir` and `put` succeed where the result is there, `delete` and `rmdir` where the path
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


def put(wanted: Wanted, digest: Digest, why: str) -> Op:
    """The step that gives `wanted` its content."""
    return Op(
        "put",
        wanted.path,
        digest.sha256,
        digest.size,
        wanted.source,
        wanted.blob,
        digest.transforms,
        f"{why}: {wanted.why}",
    )


def with_directories(puts: Iterable[Op], existing: frozenset[str]) -> Iterator[Op]:
    """`puts` with every missing directory made just before it is needed."""
    there = set(existing)
    for one in puts:
        missing = [folder for folder in paths.parents(one.path) if folder not in there]
        for folder in reversed(missing):
            there.add(folder)
            yield Op("mkdir", folder)
        yield one


def in_put_order(puts: Iterable[Op], layout: Layout) -> list[Op]:
    """Mapping by mapping, announcing files after all that they speak of."""
    known = list(puts)
    last: dict[str, int] = {}
    for one in known:
        order = layout.files[one.path].order
        for folder in paths.parents(one.path):
            last[folder] = max(order, last.get(folder, 0))

    def key(one: Op) -> tuple[int, _Key]:
        announces = _announces(one.path)
        order = last.get(paths.parent(one.path)) if announces else None
        place = layout.files[one.path].order if order is None else order
        return place, _key(one.path, 0, 1 if announces else 0)

    return sorted(known, key=key)


def deletes(doomed: Mapping[str, str]) -> list[Op]:
    """The deletes, announcing files first."""

    def key(path: str) -> _Key:
        return _key(path, 1, 0 if _announces(path) else 1)

    return [Op("delete", path, why=doomed[path]) for path in sorted(doomed, key=key)]


def removals(folders: Iterable[str], why: str) -> list[Op]:
    """The directories to remove, the deepest first."""
    deepest_first = sorted(folders, key=lambda path: (-path.count("/"), path))
    return [Op("rmdir", path, why=why) for path in deepest_first]


def _announces(path: str) -> bool:
    return paths.base(path) in _ANNOUNCING


def _key(path: str, folder: int, own: int) -> _Key:
    *above, name = path.split("/")
    return (*((folder, part) for part in above), (own, name))
