"""Paths inside a repository: which ones may be written.

A checked path is relative, has no empty, `.` or `..` part and nothing that any file
system takes for `.git`.
"""

from __future__ import annotations

MAX_BYTES = 4096
MAX_DEPTH = 128

_IGNORED_BY_HFS = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)


class PathRefused(ValueError):
    """A path that must not be written to a repository."""


def split(path: str) -> tuple[str, ...]:
    """The parts of a checked path."""
    if not path or len(path.encode("utf-8", "surrogateescape")) > MAX_BYTES or "\0" in path:
        raise PathRefused(f"a path has 1 to {MAX_BYTES} bytes and no NUL")
    parts = tuple(path.split("/"))
    if len(parts) > MAX_DEPTH:
        raise PathRefused(f"a path has at most {MAX_DEPTH} parts")
    for part in parts:
        if part in {"", ".", ".."}:
            raise PathRefused(f"{path!r}: a path is relative and has no empty, `.` or `..` part")
        if _is_dot_git(part):
            raise PathRefused(f"{path!r}: no part of a path may be read as .git")
    return parts


def _is_dot_git(part: str) -> bool:
    plain = part.translate(_IGNORED_BY_HFS).lower().split(":", 1)[0].rstrip(". ")
    return plain in {".git", "git~1"}
