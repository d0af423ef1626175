"""Interrupts a sync before its commit point, because a newer input came or the agent stops.

Requested from the event loop, effective everywhere: calls over the network are cancelled, threads
check between two files, a transaction is interrupted. Past the commit point nothing here has any
effect: what began there is finished.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from windlass.base.errors import Retryable

T = TypeVar("T")


class SyncInterrupted(Retryable):
    """The sync ended before its commit point; nothing was changed."""

    def __init__(self) -> None:
        super().__init__("Retrying", "given up before the commit point for something newer")


class Interrupt:
    """The wish to end one sync."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self._callback: Callable[[], None] | None = None

    @property
    def is_set(self) -> bool:
        return self._requested.is_set()

    def set(self) -> None:
        """Ask; from the event loop only."""
        self._requested.set()
        if self._callback is not None:
            self._callback()

    def check(self) -> None:
        """Raise if it was asked; from any thread."""
        if self._requested.is_set():
            raise SyncInterrupted

    @contextlib.contextmanager
    def on_interrupt(self, callback: Callable[[], None]) -> Iterator[None]:
        """While the block runs, `callback` is called when it is asked."""
        self._callback = callback
        try:
            yield
        finally:
            self._callback = None

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of `coroutine`, which is cancelled when it is asked."""
        task = asyncio.ensure_future(coroutine)
        requested = asyncio.ensure_future(self._requested.wait())
        try:
            await asyncio.wait({task, requested}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise SyncInterrupted
            return await task
        finally:
            requested.cancel()
            await cancel_and_wait(task)

    async def sleep(self, seconds: float) -> None:
        """Sleep; raise as soon as it is asked."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._requested.wait()
        self.check()


async def cancel_and_wait(task: asyncio.Future[T]) -> None:
    """Cancel what still runs, and wait until it has cleaned up after itself."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        # Looked at, so that a failure that another one overtook is no warning.
        task.exception()
