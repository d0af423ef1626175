"""One child process in a group of its own, with an end in every direction.

Time, output, memory and file size are bounded. Whatever happens (deadline, cancellation,
too much output, normal end), no process of the group is alive afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.base import process_group

_CHUNK = 64 * 1024
_SHELL = "/bin/sh"
# A limit that cannot be set is one that is already lower. A file that would grow too large
# is an error that git names, instead of a signal that it dies of without a word.
_BIND_AND_START = (
    'trap "" XFSZ; ulimit -c 0; ulimit -v "$1" 2>/dev/null; ulimit -f "$2" 2>/dev/null;'
    ' shift 2; exec "$@"'
)


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """How much a child may take."""

    deadline_seconds: float
    stdout_bytes: int
    stderr_bytes: int
    memory_bytes: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended; `overflowed` = it was killed for talking too much."""

    returncode: int
    stdout: bytes
    stderr: bytes
    overflowed: bool


async def run(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: Path,
    stdin: bytes,
    descriptors: Sequence[int],
    limits: ProcessLimits,
    sink: Callable[[bytes], object] | None = None,
) -> Ended:
    """Run to the end; TimeoutError where the deadline came first.

    With a `sink` the output goes there piece by piece, in a thread, without a limit.
    """
    async with asyncio.timeout(limits.deadline_seconds):
        process = await process_group.started(
            *_limited(argv, limits),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=dict(environment),
            cwd=cwd,
            pass_fds=tuple(descriptors),
        )
        try:
            return await _converse(process, stdin, limits, sink)
        finally:
            await process_group.end(process)


async def _converse(
    process: Process, stdin: bytes, limits: ProcessLimits, sink: Callable[[bytes], object] | None
) -> Ended:
    assert process.stdout is not None
    assert process.stderr is not None
    if sink is not None:
        listening = _pour(process.stdout, sink)
    else:
        listening = _read(process, process.stdout, limits.stdout_bytes)
    said = asyncio.ensure_future(_read(process, process.stderr, limits.stderr_bytes))
    fed = asyncio.ensure_future(_feed(process, stdin))
    try:
        stdout, loud = await listening
        (stderr, noisy), _, returncode = await asyncio.gather(said, fed, process.wait())
    finally:
        # Where a sink fails they still stand at their pipes, which only one at a time may read.
        for task in (said, fed):
            task.cancel()
        await asyncio.gather(said, fed, return_exceptions=True)
    return Ended(returncode, stdout, stderr, loud or noisy)


def _limited(argv: Sequence[str], limits: ProcessLimits) -> list[str]:
    """The command, started by a shell that first binds itself, and so all its descendants.

    Limits set from outside would miss what the child has already started, and code between
    fork and exec is unsafe with threads. The script is fixed; the command is its arguments.
    """
    memory_kib, file_blocks = limits.memory_bytes // 1024, limits.file_bytes // 512
    return [_SHELL, "-c", _BIND_AND_START, "sh", str(memory_kib), str(file_blocks), *argv]


async def _read(process: Process, stream: asyncio.StreamReader, cap: int) -> tuple[bytes, bool]:
    kept = bytearray()
    overflowed = False
    while chunk := await stream.read(_CHUNK):
        if len(kept) + len(chunk) > cap:
            overflowed = True
            process_group.kill(process)
        else:
            kept += chunk
    return bytes(kept), overflowed


async def _pour(
    stream: asyncio.StreamReader, sink: Callable[[bytes], object]
) -> tuple[bytes, bool]:
    while chunk := await stream.read(_CHUNK):
        await asyncio.to_thread(sink, chunk)
    return b"", False


async def _feed(process: Process, content: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        if content:
            process.stdin.write(content)
            await process.stdin.drain()
        process.stdin.close()
        await process.stdin.wait_closed()
