"""One request to git's own `http-backend`, bodies streamed in both directions.

The child lives in its own process group and is gone at the deadline, when the client
goes away, and when the answer is complete.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from windlass.base import process_group
from windlass.dev.git_request import ClientGone

_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """The head of a CGI answer; the body follows from `body`."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: AsyncIterator[bytes]


@contextlib.asynccontextmanager
async def answering(
    git: str, variables: Mapping[str, str], body: AsyncIterator[bytes]
) -> AsyncIterator[Answer]:
    """Run the backend around the use of its answer."""
    process = await process_group.started(
        git,
        "http-backend",
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env=dict(variables),
    )
    feeding = asyncio.create_task(_feed(process, body))
    try:
        assert process.stdout is not None
        status, headers = await _head(process.stdout)
        yield Answer(status, headers, _rest(process.stdout))
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        await process_group.end(process)


async def _feed(process: Process, body: AsyncIterator[bytes]) -> None:
    assert process.stdin is not None
    try:
        async for chunk in body:
            process.stdin.write(chunk)
            await process.stdin.drain()
        process.stdin.close()
        await process.stdin.wait_closed()
    except ClientGone:
        # The backend reads a body that ends too early again and again, for ever.
        process_group.kill(process)
    except (BrokenPipeError, ConnectionResetError):
        return


async def _head(stream: asyncio.StreamReader) -> tuple[int, tuple[tuple[bytes, bytes], ...]]:
    status = 200
    headers: list[tuple[bytes, bytes]] = []
    while line := (await stream.readline()).strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"status":
            status = int(value.split()[0])
        else:
            headers.append((name.lower(), value.strip()))
    if not headers:
        return 500, ()
    return status, tuple(headers)


async def _rest(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while chunk := await stream.read(_CHUNK):
        yield chunk
