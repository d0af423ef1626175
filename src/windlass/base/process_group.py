"""Child processes with a process group of their own, which is killed as a whole.

A cancellation while a child starts leaves no process behind: asyncio alone would kill the
child but not what it has started meanwhile.
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
    """Start a child that leads its own group; `how` are further arguments for asyncio."""
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
    """Kill the group and read the rest of its pipes, so that they close."""
    kill(process)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            await process.communicate()


def kill(process: Process) -> None:
    """Kill the group at once; it may be gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
