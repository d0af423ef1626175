"""Relative paths of repositories and data directories.

A path that passed `check` cannot leave the directory it is joined to. `normalised` gives
every spelling of a path one text; the directory itself is the empty string. All other
functions take normalised paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_FIRST_PRINTABLE = " "


def check(path: str) -> None:
    """V6: ValueError, saying what is wrong, where `path` could lead out of its directory."""
    if path.startswith(("/", "~")):
        raise ValueError(f"{path!r} must be relative: remove the leading {path[0]!r}")
    if ".." in path.split("/"):
        raise ValueError(f"{path!r} must not contain '..'")
    if "\\" in path:
        raise ValueError(f"{path!r} must not contain a backslash; directories are parted by '/'")
    if any(char < _FIRST_PRINTABLE for char in path):
        raise ValueError(f"{path!r} must not contain control characters")


def normalised(path: str) -> str:
    """MAP-2: the one spelling of `path`: no `.`, no doubled or trailing slash; V6 holds."""
    check(path)
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def means_directory(path: str) -> bool:
    """Whether a destination names a directory to put something into (`""`, `.`, `a/`)."""
    return path in ("", ".") or path.endswith(("/", "/."))


def joined(folder: str, name: str) -> str:
    """`name` below `folder`; either may be empty."""
    return f"{folder}/{name}" if folder and name else folder or name


def parent(path: str) -> str:
    """The directory that holds `path`; empty at the top."""
    return path.rpartition("/")[0]


def base(path: str) -> str:
    """The last component."""
    return path.rpartition("/")[2]


def parents(path: str) -> Iterator[str]:
    """Every directory above `path`, the nearest first, without the empty one."""
    end = path.rfind("/")
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)


def all_parents(files: Iterable[str]) -> frozenset[str]:
    """Every directory that `files` need."""
    folders = {parent(path) for path in files} - {""}
    return frozenset(folders.union(*map(parents, folders)))


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it."""
    return not folder or path == folder or path.startswith(f"{folder}/")
