"""Children with a process group of their own, which ends as a whole.

Whoever is cancelled while a child starts leaves nothing of it behind: asyncio alone would
end the child and forget what that has started in the meantime.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from typing import Any

from windlass.base import tasks

_DRAIN_SECONDS = 5.0


async def started(*command: str, **how: Any) -> Process:
    """A child that leads its own group; `how` is what asyncio wants to know besides."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(*command, start_new_session=True, **how)
    )
    try:
        return await tasks.finish(starting)
    except asyncio.CancelledError:
        if not starting.cancelled() and starting.exception() is None:
            await end(starting.result())
        raise


async def end(process: Process) -> None:
    """No member of the group stays; what is left in the pipes is read, so that they close."""
    kill(process)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            await process.communicate()


def kill(process: Process) -> None:
    """End the group at once; it may be gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
