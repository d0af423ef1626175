"""Work in a thread that is never left half done."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from windlass.base import patience

P = ParamSpec("P")
T = TypeVar("T")


async def to_its_end(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Also when cancelled, wait for the thread: it may be just making what must be removed."""
    call = functools.partial(contextvars.copy_context().run, work, *args, **kwargs)
    # No task of its own: a loop that ends cancels all tasks, and nobody would wait for it.
    return await patience.result_of(asyncio.get_running_loop().run_in_executor(None, call))
