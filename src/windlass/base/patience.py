"""Waits for what must not be left half done, however often the one who waits is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TypeVar

T = TypeVar("T")


async def result_of(running: asyncio.Future[T]) -> T:
    """What `running` ends with; a cancellation goes on its way only once it has ended."""
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({running})
        if not running.cancelled():
            # Looked at, so that a failure that nobody waits for any more is no warning.
            running.exception()
        raise
