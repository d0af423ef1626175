"""Awaits work that must finish even when its caller is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

T = TypeVar("T")


async def finish(running: asyncio.Future[T]) -> T:
    """The result of `running`; a cancellation is raised only once it has ended."""
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({running})
        if not running.cancelled():
            # Retrieved, so that asyncio does not warn of a failure without a waiting caller.
            running.exception()
        raise


P = ParamSpec("P")


async def run_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread; also when cancelled, wait for it, so that its caller can clean up."""
    call = functools.partial(contextvars.copy_context().run, work, *args, **kwargs)
    # No task of its own: a loop that ends cancels all tasks without waiting for the thread.
    return await finish(asyncio.get_running_loop().run_in_executor(None, call))
