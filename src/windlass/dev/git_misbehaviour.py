"""What each fault does to a request.

`before` handles faults that never reach git; `relay` passes git's answer on, or spoils
it. The protocol is followed as far as a client must be led to the faulty place.
"""

from __future__ import annotations

import asyncio

from windlass.dev.git_backend import Answer
from windlass.dev.git_faults import Fault
from windlass.dev.git_request import ClientGone, GitRequest

_SLOW_SECONDS = 1.0
_NOISE_LINES = 4000


async def before(fault: Fault, request: GitRequest) -> bool:
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


async def relay(fault: Fault | None, request: GitRequest, answer: Answer) -> None:
    """Pass git's answer on, whole, slowly, or not at all."""
    mode = fault.mode if fault is not None else ""
    if mode == "cut" and request.method == "POST":
        await _cut(request, answer)
        return
    await request.start(answer.status, answer.headers)
    async for chunk in answer.body:
        if mode == "slow":
            await _drip(request, chunk)
        else:
            await request.part(chunk)
    await request.part(b"", more=False)


async def _cut(request: GitRequest, answer: Answer) -> None:
    """Let git finish its work, then promise an answer and end the connection instead."""
    async for _ in answer.body:
        pass
    await request.start(200, ((b"content-length", b"1000"), *_typed(answer)))
    await request.part(b"0")


def _typed(answer: Answer) -> tuple[tuple[bytes, bytes], ...]:
    return tuple(header for header in answer.headers if header[0] == b"content-type")


async def _drip(request: GitRequest, chunk: bytes) -> None:
    for position in range(len(chunk)):
        await request.part(chunk[position : position + 1])
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
        await request.part(packet(service.encode()) + b"0000")
    number = 0
    # Nothing else says that nobody listens: what is sent then is swallowed.
    gone = asyncio.ensure_future(_hang(request))
    try:
        while not gone.done():
            lines = b"".join(_noise(request, number + each) for each in range(_NOISE_LINES))
            number += _NOISE_LINES
            await request.part(lines)
            await asyncio.sleep(0)
        await gone
    finally:
        gone.cancel()
        await asyncio.wait([gone])


def _noise(request: GitRequest, number: int) -> bytes:
    if request.method == "POST" and request.service == "receive-pack":
        return packet(b"\x02still thinking about it\n")
    capabilities = b"\0report-status" if number == 0 and request.method == "GET" else b""
    return packet(b"%040x refs/heads/endless-%d%s\n" % (number + 1, number, capabilities))


def packet(content: bytes) -> bytes:
    """A pkt-line."""
    return b"%04x" % (len(content) + 4) + content
