"""Which files a complete snapshot may remove, and whether a path is ours to write.

Used when a window closes, and by dumps. What always holds: an incomplete snapshot proves nothing
(SNP-1), an empty list alone never removes a file (SNP-4), and a path is ours by its content,
never by its name (SNP-3). Paths are relative to the repository root.

Whether foreign content occupies the path that an object needs (SNP-10):

| what the tree has there | before our claim | under our claim |
|---|---|---|
| nothing | free | free |
| a file of the same identity | free (adopted) | free (restored) |
| any other file | occupied | free (restored) |
| a symlink or a gitlink | occupied | free (restored) |
| a directory | occupied | occupied |
| a file, symlink or gitlink where a parent directory must be | occupied | occupied |

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Literal

from windlass.objects import yaml_reader
from windlass.objects.names import GVK, GVR, Identity, Key, Object
from windlass.reverser.content import file_paths


def orphan_candidates(scope_paths: Iterable[str], live: AbstractSet[str]) -> tuple[str, ...]:
    """SNP-2: the paths of a scope that no live object has.

    They are only candidates: each must still be proven to be ours (SNP-3).
    """
    return tuple(sorted(path for path in scope_paths if path not in live))


def needs_confirmation(*, list_empty: bool, candidates: Collection[str]) -> bool:
    """SNP-4: whether each candidate must be confirmed by GET, because the list had no item.

    `list_empty` is about the whole response, all namespaces of it, because an empty response is
    suspect and an empty namespace is not.
    """
    return list_empty and bool(candidates)


def parse_file(content: bytes | None) -> Object | None:
    """The object in a file; None where there is no file, or the strict reader refuses it."""
    try:
        value = yaml_reader.read(content or b"")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def own_files(
    contents: Mapping[str, Object | None], gvr: GVR, kind: str, base_folder: str
) -> dict[str, Identity]:
    """SNP-3: the files of a type whose content names an object with exactly this path."""
    own: dict[str, Identity] = {}
    for path, content in contents.items():
        identity = stored_identity(content, gvr, kind)
        if identity is not None and file_paths.file_path(base_folder, identity) == path:
            own[path] = identity
    return own


def stored_identity(content: Object | None, gvr: GVR, kind: str) -> Identity | None:
    """SNP-3: the object that a file declares, if it is of that type; the path must confirm it.

    `content` is None where the strict reader refused the file.
    """
    declared = declared_identity(content) if content is not None else None
    if declared is None or declared[0] != GVK(gvr.group, gvr.version, kind):
        return None
    return Identity(gvr, declared[1].namespace, declared[1].name)


def locate_object(
    content: Object | None, path: str, base_folder: str
) -> tuple[Identity, str] | None:
    """SNP-3: the object that a file declares, and its kind, if its path confirms it.

    Nothing needs to be known of the type: the plural is the one segment that the content
    does not name, and it is read from the path.
    """
    declared = declared_identity(content) if content is not None else None
    if declared is None:
        return None
    gvk, key = declared
    segments = path.removeprefix(f"{base_folder}/").split("/")
    resource_at = 2 if gvk.group else 1
    if len(segments) <= resource_at:
        return None
    identity = Identity(GVR(gvk.group, gvk.version, segments[resource_at]), key.namespace, key.name)
    return (identity, gvk.kind) if file_paths.file_path(base_folder, identity) == path else None


def holds_identity(content: Object | None, identity: Identity, kind: str) -> bool:
    """Whether a file holds the object that belongs there, whoever wrote it (SNP-10).

    The kind counts: another kind of the same group version under the same name is foreign.
    """
    return stored_identity(content, identity.gvr, kind) == identity


def declared_identity(content: Object) -> tuple[GVK, Key] | None:
    """Kind and name that the object in a file declares; None if they are not well-formed."""
    metadata = content.get("metadata")
    if not isinstance(metadata, dict):
        return None
    namespace = metadata.get("namespace", "")
    texts = (content.get("apiVersion"), content.get("kind"), metadata.get("name"))
    api_version, kind, name = texts
    if not (isinstance(api_version, str) and isinstance(kind, str) and isinstance(name, str)):
        return None
    if not (api_version and kind and name and isinstance(namespace, str)):
        return None
    return GVK.of(api_version, kind), Key(namespace, name)


PathEntry = Literal["nothing", "file", "link", "directory", "beneath-file"]

_KIND_BITS = 0o170000
_REGULAR = 0o100000


def path_entry(path: str, modes: Mapping[str, int], directories: Collection[str]) -> PathEntry:
    """What the tree has at `path`; `modes` are those of its entries that are not trees."""
    if any(parent in modes for parent in parent_directories(path)):
        return "beneath-file"
    if path in directories:
        return "directory"
    mode = modes.get(path)
    if mode is None:
        return "nothing"
    return "file" if mode & _KIND_BITS == _REGULAR else "link"


def is_occupied(entry: PathEntry, *, claimed: bool, same_identity: bool) -> bool:
    """SNP-10 by the table above; an occupied path is skipped with the reason PathOccupied."""
    if entry in ("directory", "beneath-file"):
        return True
    if claimed or entry == "nothing":
        return False
    return entry == "link" or not same_identity


def all_directories(paths: Iterable[str]) -> frozenset[str]:
    """Every directory in the tree of `paths`."""
    directories: set[str] = set()
    for path in paths:
        for parent in reversed(parent_directories(path)):
            if parent in directories:
                break
            directories.add(parent)
    return frozenset(directories)


def parent_directories(path: str) -> tuple[str, ...]:
    """The directories above a path, the outermost first."""
    segments = path.split("/")[:-1]
    return tuple("/".join(segments[: end + 1]) for end in range(len(segments)))
