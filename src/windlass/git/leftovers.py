"""What a killed git leaves in a store, and its removal.

One process owns a store, so a lock that is there when nobody works is nobody's. Half
written files of our own are removed only when a store is opened: later they may be ones
that a thread is just writing.
"""

from __future__ import annotations

from pathlib import Path

_LOCKS = ("*.lock", "refs/**/*.lock", "objects/**/*.lock", "objects/pack/tmp_*")
_HALF_FILES = ("objects/pack/.*", "objects/tmp_*", "objects/*/tmp_*")


def remove_locks(directory: Path) -> None:
    """After a child of ours was killed."""
    _remove(directory, _LOCKS)


def remove_all(directory: Path) -> None:
    """When a store is opened."""
    _remove(directory, _LOCKS + _HALF_FILES)


def _remove(directory: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for path in directory.glob(pattern):
            if path.is_file():
                path.unlink(missing_ok=True)
