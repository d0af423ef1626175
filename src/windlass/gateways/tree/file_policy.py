"""Checks that no unsafe file of a repository reaches a gateway (PRO-4).

Two phases, because a listing knows neither sizes nor contents: `check_files` on what is
planned, before any blob is read; `check_sizes` and `check_content` on the bytes, before any of
them is written. One finding refuses the whole sync and names the path; excluding that path always
resolves it.

Pure.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from windlass.gateways.tree.path_rules import SyncRefused

MAX_COMPONENT_BYTES = 255
MAX_PATH_BYTES = 1024
MAX_DEPTH = 40
LFS_MAGIC = b"version https://git-lfs.github.com/spec/"

_PLAIN_MODES = frozenset((0o100644, 0o100755, 0o100664))
_REFUSED_MODES = {
    0o120000: "a symbolic link; commit the file itself",
    0o160000: "a submodule; submodules are not fetched, commit its files",
}
_GIT_NAMES = frozenset((".git", "git~1"))
_CONTROL_CHARACTERS = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0))))
_EXCLUDE_HINT = "or exclude this path with excludePatterns"


def is_plain_file(mode: int) -> bool:
    """Whether a Git mode is that of a regular file."""
    return mode in _PLAIN_MODES


class ListedFile(Protocol):
    """A file of a tree listing: its Git mode and the id of its content."""

    @property
    def mode(self) -> int: ...

    @property
    def blob(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Caps:
    """The size limits of `spec.safety` for the plan of one gateway."""

    max_files: int = 50_000
    max_file_bytes: int = 100 * 1024**2
    max_total_bytes: int = 2 * 1024**3


DEFAULT_CAPS = Caps()


def check_files(files: Mapping[str, ListedFile], caps: Caps = DEFAULT_CAPS) -> None:
    """Refuse planned files (by destination path) for modes, names, clashes or count."""
    if len(files) > caps.max_files:
        raise SyncRefused(
            "TooLarge",
            max(files),
            f"{len(files)} files are planned, the limit spec.safety.maxFiles is {caps.max_files}; "
            "map fewer files, exclude some, or raise the limit",
        )
    for path in sorted(files):
        _check_mode(path, files[path].mode)
        _check_name(path)
    _check_clashes(files)


def check_added_files(files: Mapping[str, ListedFile], added: Iterable[str], caps: Caps) -> None:
    """`check_files` for `files` that passed it before some of them were added."""
    if len(files) > caps.max_files:
        check_files(files, caps)
    for path in sorted(added):
        _check_mode(path, files[path].mode)
        _check_name(path)
    _check_clashes(files)


def check_sizes(sizes: Mapping[str, int], caps: Caps = DEFAULT_CAPS) -> None:
    """Refuse a file, or all files together, over the limits."""
    for path, size in sizes.items():
        if size > caps.max_file_bytes:
            raise SyncRefused(
                "TooLarge",
                path,
                f"{path} has {size} bytes, the limit spec.safety.maxFileSize is "
                f"{caps.max_file_bytes}; raise the limit {_EXCLUDE_HINT}",
            )
    total = sum(sizes.values())
    if total > caps.max_total_bytes:
        largest = max(sorted(sizes), key=lambda path: sizes[path])
        raise SyncRefused(
            "TooLarge",
            largest,
            f"the planned files have {total} bytes in total, the limit spec.safety.maxTotalSize "
            f"is {caps.max_total_bytes}; the largest file is {largest}; map "
            "fewer files, exclude some, or raise the limit",
        )


def check_content(path: str, beginning: bytes) -> None:
    """Refuse a Git LFS pointer, detected by the first bytes of a file."""
    if beginning.startswith(LFS_MAGIC):
        raise SyncRefused(
            "LfsPointer",
            path,
            f"{path} is a Git LFS pointer, not the file itself; commit the content without "
            f"LFS {_EXCLUDE_HINT}",
        )


def _check_mode(path: str, mode: int) -> None:
    if mode not in _PLAIN_MODES:
        kind = _REFUSED_MODES.get(mode, f"of unknown file mode {mode:o}")
        raise _unsafe_path(path, f"is {kind}")


def _check_name(path: str) -> None:
    components = path.split("/")
    if len(components) > MAX_DEPTH:
        raise _unsafe_path(path, f"is more than {MAX_DEPTH} directories deep")
    if not path.isascii() or len(path) > MAX_COMPONENT_BYTES:
        _check_lengths(path, components)
    for component in components:
        if component in ("", ".", ".."):
            raise _unsafe_path(path, f"contains the path component {component!r}")
        if component.lower() in _GIT_NAMES:
            raise _unsafe_path(
                path, f"contains the path component {component!r}, which is reserved by Git"
            )
    if not path.isprintable() and not _CONTROL_CHARACTERS.isdisjoint(path):
        raise _unsafe_path(path, "contains control characters")
    if "\\" in path:
        raise _unsafe_path(path, "contains a backslash")


def _check_lengths(path: str, components: list[str]) -> None:
    try:
        whole = len(path.encode())
        longest = max(len(component.encode()) for component in components)
    except UnicodeEncodeError:
        raise _unsafe_path(path, "is not valid UTF-8") from None
    if longest > MAX_COMPONENT_BYTES:
        raise _unsafe_path(path, f"has a path component longer than {MAX_COMPONENT_BYTES} bytes")
    if whole > MAX_PATH_BYTES:
        raise _unsafe_path(path, f"is longer than {MAX_PATH_BYTES} bytes")


def _check_clashes(files: Mapping[str, ListedFile]) -> None:
    by_folded_name: dict[str, str] = {}
    for path in sorted(files):
        other = by_folded_name.setdefault(_fold_case(path), path)
        if other != path:
            raise _unsafe_path(
                path, f"differs from {_printable(other)} only in case or Unicode form"
            )


def _fold_case(path: str) -> str:
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _unsafe_path(path: str, what: str) -> SyncRefused:
    return SyncRefused("UnsafePath", path, f"{_printable(path)} {what}; fix it {_EXCLUDE_HINT}")


def _printable(path: str) -> str:
    return path if path.isprintable() else ascii(path)
