"""Work that is finished even when the one who waits for it is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

T = TypeVar("T")


async def finish(running: asyncio.Future[T]) -> T:
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


P = ParamSpec("P")


async def run_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Also when cancelled, wait for the thread: it may be just making what must be removed."""
    call = functools.partial(contextvars.copy_context().run, work, *args, **kwargs)
    # No task of its own: a loop that ends cancels all tasks, and nobody would wait for it.
    return await finish(asyncio.get_running_loop().run_in_executor(None, call))
