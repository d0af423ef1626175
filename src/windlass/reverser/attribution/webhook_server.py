"""The admission webhook process: answers admission requests, then sends records of them.

Started by `webhook_supervisor` with two inherited descriptors, the listening socket and one end
of a socket pair. Sanitizing and hashing happen after the answer, through a queue that drops when it
is full and reports the loss. Its heartbeats tell up to when records were sent, so that the
controller judges no change while its record may still wait here. It ends when the controller has
ended.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import resource
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

import structlog

from windlass.base.clock import Clock, SystemClock
from windlass.reverser.attribution import webhook_frames, webhook_record
from windlass.reverser.attribution.webhook_record import RecordSettings
from windlass.telemetry import logs
from windlass.web.admission import AdmissionEndpoint, AdmissionRequest
from windlass.web.server import Server
from windlass.web.tls import Tls

QUEUE_LIMIT = 5000
QUEUE_BYTES = 64 << 20
LARGE_BYTES = 64 << 10
LATE_SECONDS = 0.4
"""Above this wait large requests are recorded without a digest, so that one writer's large objects
do not keep the records of all others back for longer than a change waits for its own."""
HEARTBEAT_SECONDS = 0.2
_OPEN_FILES = 8192
_EXHAUSTED_ERRNOS = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_ACCEPT_PAUSE_SECONDS = 1.0

_log = structlog.get_logger(__name__)


class AdmissionWebhook:
    """Queue of answered requests, and the tasks that send records and heartbeats."""

    def __init__(
        self, writer: asyncio.StreamWriter, settings: RecordSettings, clock: Clock
    ) -> None:
        self._writer = writer
        self._settings = settings
        self._clock = clock
        # Requests with their monotonic time of receipt, at most QUEUE_LIMIT and QUEUE_BYTES.
        self._waiting: deque[tuple[float, AdmissionRequest]] = deque()
        self._waiting_bytes = 0
        # Set when a request waits, or a loss must be reported.
        self._wake = asyncio.Event()
        # Monotonic times of requests without a record, ascending; reported as one interval.
        self._lost: list[float] = []
        # Seconds that each answer took, since the last report of them.
        self._seconds: list[float] = []
        # Monotonic time at which accepting last failed.
        self._accept_failed_at = float("-inf")
        # Whether the controller asked while requests waited; else it is not woken for each record.
        self._is_probed = False
        # The time since which the endpoint reads a call, if any; set once there is one.
        self.oldest_open_call: Callable[[], float | None] = lambda: None

    def enqueue(self, request: AdmissionRequest) -> None:
        """Queue a request that is about to be answered; costs one append."""
        now = self._clock.monotonic()
        if len(self._waiting) >= QUEUE_LIMIT or self._waiting_bytes > QUEUE_BYTES:
            self._lost.append(now)
        else:
            self._waiting.append((now, request))
            self._waiting_bytes += _size(request)
        self._wake.set()

    def record_unreadable(self) -> None:
        """Note a request that could not be parsed; its record is lost."""
        self._lost.append(self._clock.monotonic())
        self._wake.set()

    def handle_loop_exception(
        self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]
    ) -> None:
        """Note connections that the event loop could not accept; their records are lost.

        Without descriptors the loop stops accepting for a second, and the API server goes on
        without an answer after as long. One pause is reported many times but counted once.
        """
        error, now = context.get("exception"), self._clock.monotonic()
        if not isinstance(error, OSError) or error.errno not in _EXHAUSTED_ERRNOS:
            loop.default_exception_handler(context)
        elif now - self._accept_failed_at > _ACCEPT_PAUSE_SECONDS / 2:
            self._accept_failed_at = now
            self._lost += [now, now + 1.5 * _ACCEPT_PAUSE_SECONDS]
            self._wake.set()
            _log.error("cannot accept connections", error=error.strerror)

    def record_duration(self, seconds: float) -> None:
        """Note how long an answer took, for the next AnsweredFrame."""
        self._seconds.append(seconds)

    async def send_records(self) -> None:
        """Send records until cancelled, one request at a time, so that answers go first."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                self._record_oldest()
                await asyncio.sleep(0)
            self._send_gap()
            if self._is_probed:
                self._is_probed = False
                self.send_heartbeat()
            await self._writer.drain()

    def _record_oldest(self) -> None:
        time, request = self._waiting.popleft()
        self._waiting_bytes -= _size(request)
        is_late = self._clock.monotonic() - time > LATE_SECONDS
        record = webhook_record.build_record(
            request, self._settings, time, digest=not (is_late and _size(request) > LARGE_BYTES)
        )
        if record is not None:
            self._writer.write(webhook_frames.encode_frame(record))

    def _send_gap(self) -> None:
        if self._lost:
            lost, self._lost = self._lost, []
            self._writer.write(
                webhook_frames.encode_frame(webhook_frames.LostFrame(lost[0], lost[-1], len(lost)))
            )

    def answer_probe(self) -> None:
        """Send a heartbeat now and, if requests wait for their record, one after the last."""
        self.send_heartbeat()
        if self._waiting or self.oldest_open_call() is not None:
            self._is_probed = True

    def send_heartbeat(self) -> None:
        """Tell that the process runs, and up to when every request has a record or is lost."""
        self._send_gap()
        now = self._clock.monotonic()
        open_since = self.oldest_open_call()
        recorded_until = min(
            now if open_since is None else open_since,
            self._waiting[0][0] if self._waiting else now,
        )
        self._writer.write(
            webhook_frames.encode_frame(webhook_frames.HeartbeatFrame(now, recorded_until))
        )

    async def send_heartbeats(self) -> None:
        """Send heartbeats, and how many requests were answered how fast, until cancelled."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            self.send_heartbeat()
            if self._seconds:
                seconds, self._seconds = self._seconds, []
                self._writer.write(
                    webhook_frames.encode_frame(webhook_frames.AnsweredFrame(len(seconds), seconds))
                )


def _size(request: AdmissionRequest) -> int:
    return len(request.object) + len(request.old_object)


async def _serve(listening: socket.socket, pair: socket.socket) -> None:
    """Answer admission requests until the controller has ended."""
    reader, writer = await asyncio.open_connection(sock=pair)
    configuration = await webhook_frames.read_controller_frame(reader)
    if not isinstance(configuration, webhook_frames.ConfigureFrame):
        return
    clock = SystemClock()
    webhook = AdmissionWebhook(writer, _record_settings(configuration), clock)
    asyncio.get_running_loop().set_exception_handler(webhook.handle_loop_exception)
    tls = Tls(
        configuration.certificate_pem,
        configuration.key_pem,
        client_ca=configuration.client_ca_pem,
    )
    endpoint = AdmissionEndpoint(
        webhook.enqueue,
        paths=configuration.paths,
        lost=webhook.record_unreadable,
        timed=webhook.record_duration,
        clock=clock,
    )
    webhook.oldest_open_call = lambda: endpoint.oldest_open_call
    server = Server(endpoint, bound=listening, tls=tls, gate=endpoint)
    async with server, asyncio.TaskGroup() as tasks:
        senders = [
            tasks.create_task(webhook.send_records()),
            tasks.create_task(webhook.send_heartbeats()),
        ]
        writer.write(webhook_frames.encode_frame(webhook_frames.ServingFrame(clock.monotonic())))
        await _follow_controller(reader, tls, endpoint, webhook)
        for task in senders:
            task.cancel()


async def _follow_controller(
    reader: asyncio.StreamReader,
    tls: Tls,
    endpoint: AdmissionEndpoint,
    webhook: AdmissionWebhook,
) -> None:
    """Answer probes, apply new certificates and paths; returns when the controller has ended."""
    while (frame := await webhook_frames.read_controller_frame(reader)) is not None:
        match frame:
            case webhook_frames.ProbeFrame():
                webhook.answer_probe()
            case webhook_frames.ConfigureFrame():
                tls.reload(frame.certificate_pem, frame.key_pem)
                endpoint.accept(frame.paths)


def _record_settings(configuration: webhook_frames.ConfigureFrame) -> RecordSettings:
    return RecordSettings(
        digest_key=configuration.digest_key,
        sensitive=frozenset(configuration.sensitive),
    )


def _raise_open_file_limit() -> None:
    """Raise the soft limit of open files: where it is 1024, accepting would fail before the
    server's own limit of connections closes an idle one.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted_limit = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted_limit, hard))


def main() -> None:
    """Serve with the descriptors that the command line names."""
    parser = argparse.ArgumentParser(description="Admission webhook of the windlass controller.")
    parser.add_argument("--listen-fd", type=int, required=True)
    parser.add_argument("--pair-fd", type=int, required=True)
    parser.add_argument("--log-format", default="auto")
    parser.add_argument("--log-level", default="info")
    arguments = parser.parse_args()
    _raise_open_file_limit()
    logs.configure(format=arguments.log_format, level=arguments.log_level)
    listening = socket.socket(fileno=arguments.listen_fd)
    pair = socket.socket(fileno=arguments.pair_fd)
    asyncio.run(_serve(listening, pair))
