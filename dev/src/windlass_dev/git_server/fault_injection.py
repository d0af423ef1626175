"""Faults of the git server, chosen by tests and demos, and what each does to a request.

One fault is active at a time: for one service or all, for a number of requests or until
it is cleared. A control file, where one is given, is read on every request, so a fault
can be switched on beside a running server; an absent or empty file means none.

`answer_with_fault` handles faults that never reach git; `relay_response` passes git's
response on, or spoils it. The protocol is followed as far as a client must be led to the
faulty part.
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
    """One fault; `text`, `branch` and `location` belong to reject, protected and redirect.

    cut: the pack is accepted, then the connection ends without an answer.
    """

    mode: str
    service: str = ""
    times: int | None = None
    text: str = "the push is not wanted"
    branch: str = ""
    location: str = ""
    advertisement: bool = True
    """Whether the first request of an exchange (the list of refs) is affected too."""

    def __post_init__(self) -> None:
        if self.mode not in FAULT_MODES:
            raise ValueError(f"{self.mode!r} is no fault; use one of {', '.join(FAULT_MODES)}")
        if self.service not in FAULT_SERVICES:
            raise ValueError(f"{self.service!r} is no service; use upload-pack or receive-pack")


class ActiveFault:
    """The active fault; may be set from any thread."""

    def __init__(self, control_file: Path | None = None) -> None:
        self._active: GitFault | None = None
        self._control_file = control_file
        self._lock = threading.Lock()

    def set(self, fault: GitFault) -> None:
        with self._lock:
            self._active = fault

    def clear(self) -> None:
        with self._lock:
            self._active = None

    def take(self, service: str, *, advertisement: bool) -> GitFault | None:
        """The fault this request meets; counts down a fault that ends by itself."""
        from_file = self._from_file()
        with self._lock:
            fault = from_file or self._active
            if fault is None or (fault.service and fault.service != service):
                return None
            if advertisement and not fault.advertisement:
                return None
            if from_file is None and fault.times is not None:
                left = fault.times - 1
                self._active = replace(fault, times=left) if left > 0 else None
            return fault

    def _from_file(self) -> GitFault | None:
        """The fault the control file asks for: `{"mode": "hang", "service": "receive-pack"}`."""
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
    """Answer in git's place; False where the request goes on to git."""
    if fault.mode == "refuse-auth":
        await request.refuse_credentials()
    elif fault.mode == "error":
        await request.reply(500, b"the server has a bad day\n")
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


async def relay_response(fault: GitFault | None, request: GitRequest, answer: CgiResponse) -> None:
    """Pass git's answer on, whole, slowly, or not at all."""
    mode = fault.mode if fault is not None else ""
    if mode == "cut" and request.method == "POST":
        await _cut_response(request, answer)
        return
    await request.start(answer.status, answer.headers)
    async for chunk in answer.body:
        if mode == "slow":
            await _drip(request, chunk)
        else:
            await request.send_part(chunk)
    await request.send_part(b"", more=False)


async def _cut_response(request: GitRequest, answer: CgiResponse) -> None:
    """Let git finish its work, then promise an answer and end the connection instead."""
    async for _ in answer.body:
        pass
    await request.start(200, ((b"content-length", b"1000"), *_content_type(answer)))
    await request.send_part(b"0")


def _content_type(answer: CgiResponse) -> tuple[tuple[bytes, bytes], ...]:
    return tuple(header for header in answer.headers if header[0] == b"content-type")


async def _drip(request: GitRequest, chunk: bytes) -> None:
    for position in range(len(chunk)):
        await request.send_part(chunk[position : position + 1])
        await asyncio.sleep(_SLOW_SECONDS)


async def _hang(request: GitRequest) -> None:
    """Say nothing until the client gives up."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone


async def _endless(request: GitRequest) -> None:
    """Well-formed lines without an end: refs for who reads refs, progress for who pushes."""
    kind = "advertisement" if request.method == "GET" else "result"
    media = f"application/x-git-{request.service}-{kind}".encode()
    await request.start(200, ((b"content-type", media), (b"cache-control", b"no-cache")))
    if request.method == "GET":
        service = f"# service=git-{request.service}\n"
        await request.send_part(pkt_line(service.encode()) + b"0000")
    number = 0
    # Nothing else says that nobody listens: what is sent then is swallowed.
    gone = asyncio.ensure_future(_hang(request))
    try:
        while not gone.done():
            lines = b"".join(_noise(request, number + each) for each in range(_NOISE_LINES))
            number += _NOISE_LINES
            await request.send_part(lines)
            await asyncio.sleep(0)
        await gone
    finally:
        gone.cancel()
        await asyncio.wait([gone])


def _noise(request: GitRequest, number: int) -> bytes:
    if request.method == "POST" and request.service == "receive-pack":
        return pkt_line(b"\x02still thinking about it\n")
    capabilities = b"\0report-status" if number == 0 and request.method == "GET" else b""
    return pkt_line(b"%040x refs/heads/endless-%d%s\n" % (number + 1, number, capabilities))


def pkt_line(content: bytes) -> bytes:
    """A pkt-line."""
    return b"%04x" % (len(content) + 4) + content
