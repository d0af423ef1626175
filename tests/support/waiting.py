"""The one way in which asynchronous tests wait: for an answer, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def eventually(look: Callable[[], Awaitable[T]], what: str, *, seconds: float = 30.0) -> T:
    """The first true answer of `look`; fails with its last answer after `seconds`."""
    last: Any = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                last = await look()
                if last:
                    return last
                await asyncio.sleep(0.03)
    except TimeoutError:
        raise AssertionError(f"not within {seconds:g} s: {what}; last answer {last!r}") from None
