"""Ends work that makes a directory too large.

The kubelet evicts a pod whose volume outgrows its limit, so whoever writes into such a
volume is stopped before. The watch looks several times a second; in between, git children
that are `limit_file_size` cannot make a single file larger than the cap either.

How much of the packs on disk this process maps into memory at a time.

libgit2 maps packs in windows and keeps them as long as there is room, by default for many
gigabytes; every page that was read then counts as ours. A process that must stay small
says so once, at its start; it reads a little slower afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pygit2

from windlass.git import store_health
from windlass.git.errors import GitError
from windlass.git.runner import Git

_CHECK_SECONDS = 0.05

_T = TypeVar("_T")


def limit_file_size(git: Git, cap_bytes: int) -> Git:
    """The same git, whose children write no file larger than the cap."""
    lower = min(cap_bytes, git.settings.file_limit_bytes)
    return git.under(replace(git.settings, file_limit_bytes=lower))


async def run_within(cap_bytes: int, directory: Path, work: Coroutine[Any, Any, _T]) -> _T:
    """The result of `work`; TooLarge, with the work cancelled, once `directory` exceeds the cap."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_outgrown(cap_bytes, directory))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            result = working.result()
            if await asyncio.to_thread(directory_bytes, directory) <= cap_bytes:
                return result
        elif watching.done():
            watching.result()
        raise _too_large(cap_bytes)
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


def directory_bytes(directory: Path) -> int:
    """The bytes of all files below `directory`; what vanishes meanwhile does not count."""
    total = 0
    with store_health.translate_store_errors():
        for place, _, names in os.walk(directory):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    total += os.lstat(f"{place}/{name}").st_size
    return total


async def _outgrown(cap_bytes: int, directory: Path) -> None:
    while await asyncio.to_thread(directory_bytes, directory) <= cap_bytes:  # noqa: ASYNC110
        # A disk has no event to wait for.
        await asyncio.sleep(_CHECK_SECONDS)


def _too_large(cap_bytes: int) -> GitError:
    return GitError(
        "TooLarge",
        f"what the remote sends does not fit into the {cap_bytes} bytes of the git store;"
        " make the store larger or the repository smaller",
    )


_MIB = 1024 * 1024
_WINDOW_BYTES = 1 * _MIB
_ALL_WINDOWS_BYTES = 4 * _MIB
_CACHED_BYTES = 1 * _MIB


def limit_pack_windows() -> None:
    """Map and remember little; for the whole process."""
    pygit2.settings.mwindow_size = _WINDOW_BYTES
    pygit2.settings.mwindow_mapped_limit = _ALL_WINDOWS_BYTES
    pygit2.settings.cache_max_size(_CACHED_BYTES)
