"""Faults of the git server, chosen by tests and demos, and what each does to a request.

One fault is active at a time: for one service or all, for a number of requests or until
it is cleared. A control file, where one is given, is read on every request, so a fault
can be switched on beside a running server; an absent or empty file means none.

`answer_with_fault` handles faults that never reach git; `relay_response` passes git's
response on, or damages it. The protocol is followed up to the point at which the client
meets the fault.

| Mode | Effect |
|---|---|
| refuse-auth | 401, whatever the credentials |
| error | 500 |
| hang | no response until the client gives up |
| slow | git's response, one byte a second |
| cut | git processes the request, then the connection ends within the response |
| reject | the pre-receive hook rejects the push with `text` |
| protected | the update hook rejects changes of `branch` |
| redirect | 302 to the same path below `location` |
| endless | a well-formed response without an end |
"""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from windlass_dev.git_server.git_backend import CgiResponse, ClientGone, GitRequest

FAULT_MODES = (
    "refuse-auth",
    "error",
    "hang",
    "slow",
    "cut",
    "reject",
    "protected",
    "redirect",
    "endless",
)
FAULT_SERVICES = ("", "upload-pack", "receive-pack")


@dataclass(frozen=True, slots=True)
class GitFault:
    """One fault; its fields are the keys of the control file."""

    mode: str
    """One of `FAULT_MODES`."""
    service: str = ""
    """The affected service, `upload-pack` or `receive-pack`; empty for both."""
    times: int | None = None
    """After how many requests it ends; None until it is cleared, always so from a file."""
    text: str = "the push is rejected"
    """The message of mode `reject`."""
    branch: str = ""
    """The branch of mode `protected`."""
    location: str = ""
    """The base URL of mode `redirect`."""
    advertisement: bool = True
    """Whether the first request of an exchange (the list of refs) is affected too."""

    def __post_init__(self) -> None:
        if self.mode not in FAULT_MODES:
            raise ValueError(f"unsupported mode {self.mode!r}; supported: {', '.join(FAULT_MODES)}")
        if self.service not in FAULT_SERVICES:
            raise ValueError(
                f"unsupported service {self.service!r}; supported: upload-pack, receive-pack"
            )


class ActiveFault:
    """The active fault; may be set from any thread."""

    def __init__(self, control_file: Path | None = None) -> None:
        # Set by tests through `set`; a fault in the control file takes precedence.
        self._active: GitFault | None = None
        self._control_file = control_file
        # Tests set the fault from their own thread while the server's loop takes it.
        self._lock = threading.Lock()

    def set(self, fault: GitFault) -> None:
        """Make `fault` the active one."""
        with self._lock:
            self._active = fault

    def clear(self) -> None:
        """Remove the fault that was set; the control file is not touched."""
        with self._lock:
            self._active = None

    def take(self, service: str, *, advertisement: bool) -> GitFault | None:
        """The fault for this request, if any; counts down a fault with `times`."""
        from_file = self._from_file()
        with self._lock:
            fault = from_file or self._active
            if fault is None or (fault.service and fault.service != service):
                return None
            if advertisement and not fault.advertisement:
                return None
            if from_file is None and fault.times is not None:
                remaining = fault.times - 1
                self._active = replace(fault, times=remaining) if remaining > 0 else None
            return fault

    def _from_file(self) -> GitFault | None:
        """The fault in the control file, such as `{"mode": "hang", "service": "receive-pack"}`."""
        if self._control_file is None:
            return None
        try:
            text = self._control_file.read_text()
        except FileNotFoundError:
            return None
        if not text.strip():
            return None
        try:
            return GitFault(**json.loads(text))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self._control_file}: {error}") from error


_SLOW_SECONDS = 1.0
_NOISE_LINES = 4000


async def answer_with_fault(fault: GitFault, request: GitRequest) -> bool:
    """Respond instead of git; False if the request goes on to git."""
    if fault.mode == "refuse-auth":
        await request.refuse_credentials()
    elif fault.mode == "error":
        await request.reply(500, b"injected server error\n")
    elif fault.mode == "hang":
        await _hang(request)
    elif fault.mode == "redirect":
        query = f"?{request.query}" if request.query else ""
        target = f"{fault.location.rstrip('/')}{request.path}{query}"
        await request.reply(302, b"", ((b"location", target.encode()),))
    elif fault.mode == "endless":
        await _endless(request)
    else:
        return False
    return True


async def relay_response(
    fault: GitFault | None, request: GitRequest, response: CgiResponse
) -> None:
    """Send git's response to the client: whole, byte by byte, or cut off."""
    mode = fault.mode if fault is not None else ""
    # Only the request that carries the pack is cut; its advertisement must succeed.
    if mode == "cut" and request.method == "POST":
        await _cut_response(request, response)
        return
    await request.start(response.status, response.headers)
    async for chunk in response.body:
        if mode == "slow":
            await _drip(request, chunk)
        else:
            await request.send_part(chunk)
    await request.send_part(b"", more=False)


async def _cut_response(request: GitRequest, response: CgiResponse) -> None:
    """Let git process the request, then send less than the promised content length."""
    async for _ in response.body:
        pass
    await request.start(200, ((b"content-length", b"1000"), *_content_type(response)))
    await request.send_part(b"0")


def _content_type(response: CgiResponse) -> tuple[tuple[bytes, bytes], ...]:
    return tuple(header for header in response.headers if header[0] == b"content-type")


async def _drip(request: GitRequest, chunk: bytes) -> None:
    for position in range(len(chunk)):
        await request.send_part(chunk[position : position + 1])
        await asyncio.sleep(_SLOW_SECONDS)


async def _hang(request: GitRequest) -> None:
    """Send nothing until the client disconnects."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone


async def _endless(request: GitRequest) -> None:
    """Send well-formed pkt-lines without an end: refs, or progress messages to a push."""
    kind = "advertisement" if request.method == "GET" else "result"
    media_type = f"application/x-git-{request.service}-{kind}".encode()
    await request.start(200, ((b"content-type", media_type), (b"cache-control", b"no-cache")))
    if request.method == "GET":
        service = f"# service=git-{request.service}\n"
        await request.send_part(pkt_line(service.encode()) + b"0000")
    number = 0
    # Sending does not fail after the client has gone; only receiving reports it.
    disconnected = asyncio.ensure_future(_hang(request))
    try:
        while not disconnected.done():
            lines = b"".join(_noise(request, number + offset) for offset in range(_NOISE_LINES))
            number += _NOISE_LINES
            await request.send_part(lines)
            await asyncio.sleep(0)
        await disconnected
    finally:
        disconnected.cancel()
        await asyncio.wait([disconnected])


def _noise(request: GitRequest, number: int) -> bytes:
    if request.method == "POST" and request.service == "receive-pack":
        return pkt_line(b"\x02still working\n")
    capabilities = b"\0report-status" if number == 0 and request.method == "GET" else b""
    return pkt_line(b"%040x refs/heads/endless-%d%s\n" % (number + 1, number, capabilities))


def pkt_line(content: bytes) -> bytes:
    """`content` as a pkt-line: its length in four hexadecimal digits, then itself."""
    return b"%04x" % (len(content) + 4) + content
