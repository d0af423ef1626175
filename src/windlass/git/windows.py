"""How much of the packs on disk this process maps into memory at a time.

libgit2 maps packs in windows and keeps them as long as there is room, by default for many
gigabytes; every page that was read then counts as ours. A process that must stay small
says so once, at its start; it reads a little slower afterwards.
"""

from __future__ import annotations

import pygit2

_MIB = 1024 * 1024
_WINDOW_BYTES = 1 * _MIB
_ALL_WINDOWS_BYTES = 4 * _MIB
_CACHED_BYTES = 1 * _MIB


def small() -> None:
    """Map and remember little; for the whole process."""
    pygit2.settings.mwindow_size = _WINDOW_BYTES
    pygit2.settings.mwindow_mapped_limit = _ALL_WINDOWS_BYTES
    pygit2.settings.cache_max_size(_CACHED_BYTES)
