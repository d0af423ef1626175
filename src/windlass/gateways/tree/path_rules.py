"""Rules for paths: safe relative paths, paths the gateway owns, names Ignition cannot load.

Repositories and data directories use the same relative paths. One that passed `check_path`
(V6) cannot leave the directory it is joined to. `normalize` gives every spelling of a path
one text (MAP-2); the directory itself is the empty string. All other functions take
normalized paths.

| Rule | Effect |
|---|---|
| protected (PRO-1) | never opened, written, renamed or deleted, nor anything below; not walked |
| protected by the operator | no mapping leads there, and it is excluded like a pattern |
| problematic for Ignition (PRO-5) | synced, with a warning |

The list of protected paths is constant: they belong to the gateway, never to Git.
`SyncRefused` is the error of everything that stops a whole sync. Its reason is one of the
gateway reasons (`SourceMissing`, `UnsafePath`, `MassDeleteGuard`, ...); nothing of a refused
sync may be written.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from windlass.base.errors import Stalled
from windlass.objects.names import format_count


class SyncRefused(Stalled):
    """The sync is refused; `path` is the offending path, empty if it is no single one."""

    def __init__(self, reason: str, path: str, message: str) -> None:
        super().__init__(reason, message)
        self.path = path


_FIRST_PRINTABLE = " "


def check_path(path: str) -> None:
    """Raise ValueError with a message if `path` could lead out of its directory (V6)."""
    if path.startswith(("/", "~")):
        raise ValueError(f"{path!r} must be relative: remove the leading {path[0]!r}")
    if ".." in path.split("/"):
        raise ValueError(f"{path!r} must not contain '..'")
    if "\\" in path:
        raise ValueError(f"{path!r} must not contain a backslash; use '/' to separate directories")
    if any(char < _FIRST_PRINTABLE for char in path):
        raise ValueError(f"{path!r} must not contain control characters")


def normalize(path: str) -> str:
    """The canonical form of `path` (MAP-2): no `.`, no doubled or trailing slash; V6 holds."""
    check_path(path)
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def names_directory(path: str) -> bool:
    """Whether a destination names a directory to put something into (`""`, `.`, `a/`)."""
    return path in ("", ".") or path.endswith(("/", "/."))


def join(folder: str, name: str) -> str:
    """`name` below `folder`; either may be empty."""
    return f"{folder}/{name}" if folder and name else folder or name


def parent(path: str) -> str:
    """The directory that holds `path`; empty at the top."""
    return path.rpartition("/")[0]


def base_name(path: str) -> str:
    """The last component."""
    return path.rpartition("/")[2]


def parents(path: str) -> Iterator[str]:
    """Every directory above `path`, the nearest first, without the empty one."""
    end = path.rfind("/")
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)


def required_directories(files: Iterable[str]) -> frozenset[str]:
    """Every directory above any of `files`."""
    folders = {parent(path) for path in files} - {""}
    return frozenset(folders.union(*map(parents, folders)))


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it."""
    return not folder or path == folder or path.startswith(f"{folder}/")


STATE_DIRECTORY = ".ignition-sync"

_PROTECTED_COMPONENTS = frozenset((".resources", ".git", STATE_DIRECTORY, ".sync-staging"))
_PROTECTED_TOP_LEVEL = frozenset(
    (
        "db",
        "var",
        "logs",
        "jar-cache",
        "metricsdb",
        "redundancy.xml",
        ".uuid",
        "modules.json",
        "commissioning.json",
        ".ignition-seed-complete",
    )
)
_PROTECTED_CONFIG = ("config/local/", "config/resources/local/")
# Databases of tag values and their side files, wherever they lie: `**/*.idb*`.
_TAG_DATABASE = ".idb"


def is_protected(path: str) -> bool:
    """Whether `path`, relative to the data directory, or a directory above it is protected."""
    components = path.split("/")
    if components[0] in _PROTECTED_TOP_LEVEL or not _PROTECTED_COMPONENTS.isdisjoint(components):
        return True
    if _TAG_DATABASE in path and any(_TAG_DATABASE in component for component in components):
        return True
    return f"{path}/".startswith(_PROTECTED_CONFIG)


def is_protected_by_operator(path: str, protected_paths: Iterable[str]) -> bool:
    """Whether `path` is, or lies below, one of the operator's `protected_paths`."""
    return any(is_below(path, protected) for protected in protected_paths if protected)


def is_protected_entry(folder: str, name: str) -> bool:
    """Whether the entry `name` of `folder`, which is not protected itself, is protected."""
    if name in _PROTECTED_COMPONENTS or _TAG_DATABASE in name:
        return True
    if not folder:
        return name in _PROTECTED_TOP_LEVEL
    return f"{folder}/{name}/" in _PROTECTED_CONFIG


_FORBIDDEN_CHARACTERS = frozenset('`?*:|"<>')
_FORBIDDEN_EDGES = ("/ ", "/.", "/-", " /", "./")
_FORBIDDEN_LAST = (" ", ".")
_CHECKED_ROOTS = ("projects/", "config/")


def ignition_name_warnings(planned: Iterable[str]) -> Iterator[str]:
    """One warning about all planned paths with problematic names, or none."""
    names = [path for path in planned if is_problematic_for_ignition(path)]
    if names:
        yield (
            f"Ignition may not load {format_count(len(names), 'planned path')} because of "
            f"characters in the name, first: {min(names)}"
        )


def is_problematic_for_ignition(path: str) -> bool:
    """Whether the name of `path` may keep Ignition from loading it."""
    if not path.startswith(_CHECKED_ROOTS):
        return False
    if path.endswith(_FORBIDDEN_LAST) or not _FORBIDDEN_CHARACTERS.isdisjoint(path):
        return True
    return any(end in path for end in _FORBIDDEN_EDGES)
