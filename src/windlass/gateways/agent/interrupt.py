"""Interrupts a sync before its commit point, because of a newer input or a shutdown.

Requested on the event loop, effective everywhere: network calls are cancelled, threads check
between two files, a transaction is interrupted. Past the commit point an interrupt has no effect:
the sync is finished.
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
        super().__init__("Retrying", "interrupted before the commit point by a newer request")


class Interrupt:
    """A request to end one sync; never withdrawn."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        # Called once by `set`; None outside `on_interrupt`.
        self._callback: Callable[[], None] | None = None

    @property
    def is_set(self) -> bool:
        return self._requested.is_set()

    def set(self) -> None:
        """Request the end; call it on the event loop only."""
        self._requested.set()
        if self._callback is not None:
            self._callback()

    def check(self) -> None:
        """Raise `SyncInterrupted` if requested; may be called in any thread."""
        if self._requested.is_set():
            raise SyncInterrupted

    @contextlib.contextmanager
    def on_interrupt(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call `callback` when the interrupt is requested while the block runs."""
        self._callback = callback
        try:
            yield
        finally:
            self._callback = None

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of `coroutine`, which is cancelled when the interrupt is requested."""
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
        """Sleep; raise `SyncInterrupted` as soon as it is requested."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._requested.wait()
        self.check()


async def cancel_and_wait(task: asyncio.Future[T]) -> None:
    """Cancel a task that still runs, and wait until it has cleaned up."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        # Retrieved, so that asyncio does not warn about an error that another one preceded.
        task.exception()
