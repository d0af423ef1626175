"""An event loop in a thread of its own, for servers beside tests that block.

Whatever its servers leave open ends with it: a socket that is left to the garbage collector
is a warning in whichever test runs then, and warnings are errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from tests.support.processes.polling import DEADLINE_SECONDS

T = TypeVar("T")


class ServerLoop:
    """A running loop; callers wait for the result of their coroutine."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(DEADLINE_SECONDS)


@contextlib.contextmanager
def server_loop() -> Iterator[ServerLoop]:
    """A running loop; everything that was opened in it is closed afterwards."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    running = ServerLoop(loop)
    try:
        yield running
    finally:
        try:
            running.run(_close_all())
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(DEADLINE_SECONDS)
            loop.close()


async def _close_all() -> None:
    """End all tasks, threads and connections of this loop."""
    # A connection that is just being accepted is closed by its task, once that has begun.
    await asyncio.sleep(0)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    loop: Any = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
    # A stopped server takes no new connections and leaves the others to their handlers; in
    # the middle of a TLS handshake there is none yet. Only the loop itself knows them all.
    for transport in list(loop._transports.values()):
        transport.abort()
    await asyncio.sleep(0)
