"""Limits the disk and the memory that stores take.

The kubelet evicts a pod whose volume outgrows its limit, so `run_within` cancels work that makes a
directory too large. It measures several times a second; in between, git children under
`limit_file_size` cannot make a single file larger than the cap either.

`limit_pack_windows` bounds how much of the packs on disk this process maps into memory. libgit2
maps packs in windows and keeps them as long as there is room, by default for many gigabytes, and
every page that was read counts as memory of the process. A process that must stay small calls it
once, at its start; reads are a little slower afterwards.
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
    """The same runner, whose children write no file larger than the cap."""
    lower = min(cap_bytes, git.settings.file_limit_bytes)
    return git.under(replace(git.settings, file_limit_bytes=lower))


async def run_within(cap_bytes: int, directory: Path, work: Coroutine[Any, Any, _T]) -> _T:
    """Await `work`; cancels it and raises TooLarge once `directory` exceeds the cap."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_wait_until_larger(cap_bytes, directory))
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
    """The bytes of all files below `directory`; files that vanish meanwhile do not count."""
    total = 0
    with store_health.translate_store_errors():
        for folder, _, names in os.walk(directory):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    total += os.lstat(f"{folder}/{name}").st_size
    return total


async def _wait_until_larger(cap_bytes: int, directory: Path) -> None:
    while await asyncio.to_thread(directory_bytes, directory) <= cap_bytes:  # noqa: ASYNC110
        # There is no event for the size of a directory.
        await asyncio.sleep(_CHECK_SECONDS)


def _too_large(cap_bytes: int) -> GitError:
    return GitError(
        "TooLarge",
        f"the repository exceeds the {cap_bytes} bytes of the git store; make the store larger"
        " or the repository smaller",
    )


_MIB = 1024 * 1024
_WINDOW_BYTES = 1 * _MIB
_ALL_WINDOWS_BYTES = 4 * _MIB
_CACHED_BYTES = 1 * _MIB


def limit_pack_windows() -> None:
    """Bound mapped windows and cached objects of libgit2, for the whole process."""
    pygit2.settings.mwindow_size = _WINDOW_BYTES
    pygit2.settings.mwindow_mapped_limit = _ALL_WINDOWS_BYTES
    pygit2.settings.cache_max_size(_CACHED_BYTES)
