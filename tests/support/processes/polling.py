"""Polling with a deadline, for asynchronous tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
DEADLINE_SECONDS = 30.0
"""How long a fact is awaited where nothing is known to take longer."""


def pauses() -> Iterator[float]:
    """Seconds between two polls: short at first, then a tenth of the time waited so far."""
    waited = 0.0
    while True:
        pause = min(max(0.02, waited / 10), 0.25)
        waited += pause
        yield pause


async def eventually(
    poll: Callable[[], Awaitable[T]], what: str, *, seconds: float = DEADLINE_SECONDS
) -> T:
    """The first true result of `poll`; fails with its last result after `seconds`."""
    last: Any = None
    try:
        async with asyncio.timeout(seconds) as deadline:
            wait = pauses()
            while not (last := await poll()):  # noqa: ASYNC110 - others answer, without an event
                await asyncio.sleep(next(wait))
            return last
    except TimeoutError:
        if not deadline.expired():
            raise  # of the poll itself
        raise AssertionError(f"not within {seconds:g} s: {what}; last answer {last!r}") from None
