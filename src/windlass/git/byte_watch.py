"""Ends work that makes a directory too large.

The kubelet evicts a pod whose volume outgrows its limit, so whoever writes into such a
volume is stopped before. The watch looks several times a second; in between, git children
that are `bound` cannot make a single file larger than the cap either.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from windlass.git import objects_edge
from windlass.git.child import Git
from windlass.git.errors import GitError

_LOOK_SECONDS = 0.05

_T = TypeVar("_T")


def bound(git: Git, cap_bytes: int) -> Git:
    """The same git, whose children write no file larger than the cap."""
    lower = min(cap_bytes, git.settings.file_limit_bytes)
    return git.under(replace(git.settings, file_limit_bytes=lower))


async def within(cap_bytes: int, directory: Path, work: Coroutine[Any, Any, _T]) -> _T:
    """The result of `work`; TooLarge, with the work cancelled, once `directory` exceeds the cap."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_outgrown(cap_bytes, directory))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            result = working.result()
            if await asyncio.to_thread(size, directory) <= cap_bytes:
                return result
        elif watching.done():
            watching.result()
        raise _too_large(cap_bytes)
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


def size(directory: Path) -> int:
    """The bytes of all files below `directory`; what vanishes meanwhile does not count."""
    total = 0
    with objects_edge.translated():
        for place, _, names in os.walk(directory):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    total += os.lstat(f"{place}/{name}").st_size
    return total


async def _outgrown(cap_bytes: int, directory: Path) -> None:
    while await asyncio.to_thread(size, directory) <= cap_bytes:  # noqa: ASYNC110
        # A disk has no event to wait for.
        await asyncio.sleep(_LOOK_SECONDS)


def _too_large(cap_bytes: int) -> GitError:
    return GitError(
        "TooLarge",
        f"what the remote sends does not fit into the {cap_bytes} bytes of the git store;"
        " make the store larger or the repository smaller",
    )
