"""Runs the admission webhook as a child process and dispatches the frames it sends.

The listening socket belongs to the controller, so a child that dies is replaced on the same port
and calls made meanwhile wait in the kernel's queue. Every request between its last frame and the
first frame of its successor counts as lost: changes in that time get no author rather than a
guessed one.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from windlass.base.clock import Backoff, Clock
from windlass.reverser.attribution import webhook_frames

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookListeners:
    """Callbacks for the frames of the webhook process; all of them are the attributor's."""

    record: Callable[[webhook_frames.RecordFrame], None]
    gap: Callable[[float, float, int], None]
    """Start and end of the gap, and the calls in it as far as they were counted."""
    heartbeat: Callable[[float, float], None]
    """When the webhook ran, and up to when its records are complete."""
    answered: Callable[[webhook_frames.AnsweredFrame], None]
    serving: Callable[[bool], None]


class WebhookSupervisor:
    """One child process at a time, restarted with backoff."""

    def __init__(
        self,
        listening: socket.socket,
        configuration: Callable[[], webhook_frames.ConfigureFrame],
        listeners: WebhookListeners,
        clock: Clock,
        *,
        log_format: str = "auto",
        log_level: str = "info",
    ) -> None:
        # Process id of the current or last child; None before the first.
        self.pid: int | None = None
        self._listening = listening
        self._configuration = configuration
        self._listeners = listeners
        self._clock = clock
        self._log_arguments = ("--log-format", log_format, "--log-level", log_level)
        self._backoff = Backoff(0.05, 5.0)
        # Monotonic time of the last frame; nothing is known of the time before the first.
        self._silent_since = 0.0
        # Set once there is a certificate to serve with.
        self._configurable = asyncio.Event()
        # Sends frames to the current child; None between two children.
        self._writer: asyncio.StreamWriter | None = None

    async def run(self) -> None:
        """Run children until cancelled; a child ends when its end of the pair closes.

        The first starts when there is a configuration to serve with: see `reconfigure`.
        """
        await self._configurable.wait()
        while True:
            started = self._clock.monotonic()
            await self._run_child()
            if self._clock.monotonic() - started > 10.0:
                self._backoff.healthy()
            delay = self._backoff.next_seconds()
            _log.warning("admission webhook exited; restarting", seconds=round(delay, 2))
            await asyncio.sleep(delay)

    def reconfigure(self) -> None:
        """Send the current certificate and paths to the child; the first call starts it."""
        self._configurable.set()
        if self._writer is not None:
            self._writer.write(webhook_frames.encode_frame(self._configuration()))

    def request_heartbeat(self) -> None:
        """Have the child send a heartbeat at once; without a child there is none."""
        if self._writer is not None:
            self._writer.write(webhook_frames.encode_frame(webhook_frames.ProbeFrame()))

    async def _run_child(self) -> None:
        own_end, child_end = socket.socketpair()
        # Cancellation at any point leaves neither a socket nor a child behind.
        with own_end, child_end:
            process = await self._start_child(child_end)
            child_end.close()
            try:
                await self._serve_child(own_end)
            finally:
                self._writer = None
                self._listeners.serving(False)
                await _wait_for_exit(process)

    async def _start_child(self, child_end: socket.socket) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "windlass.reverser.attribution",
            f"--listen-fd={self._listening.fileno()}",
            f"--pair-fd={child_end.fileno()}",
            *self._log_arguments,
            pass_fds=(self._listening.fileno(), child_end.fileno()),
            stdin=asyncio.subprocess.DEVNULL,
        )
        self.pid = process.pid
        return process

    async def _serve_child(self, own_end: socket.socket) -> None:
        """Configure the child, then dispatch its frames until it ends."""
        try:
            reader, writer = await asyncio.open_connection(sock=own_end)
        except BaseException:
            # The child ends when its pair closes, and no other code would close it.
            own_end.close()
            raise
        try:
            writer.write(webhook_frames.encode_frame(self._configuration()))
            self._writer = writer
            await self._read_frames(reader)
        finally:
            writer.close()

    async def _read_frames(self, reader: asyncio.StreamReader) -> None:
        while (frame := await webhook_frames.read_webhook_frame(reader)) is not None:
            self._dispatch(frame)
            self._silent_since = self._clock.monotonic()

    def _dispatch(self, frame: webhook_frames.WebhookFrame) -> None:
        match frame:
            case webhook_frames.RecordFrame():
                self._listeners.record(frame)
            case webhook_frames.LostFrame():
                self._listeners.gap(frame.start, frame.end, frame.calls)
            case webhook_frames.HeartbeatFrame():
                self._listeners.heartbeat(frame.time, frame.recorded_until)
            case webhook_frames.AnsweredFrame():
                self._listeners.answered(frame)
            case webhook_frames.ServingFrame():
                self._listeners.gap(self._silent_since, frame.time, 0)
                self._listeners.heartbeat(frame.time, frame.time)
                self._listeners.serving(True)


async def _wait_for_exit(process: asyncio.subprocess.Process) -> None:
    """Wait for the child, which ends when its pair closes; kill it if it does not."""
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3.0):
                await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
