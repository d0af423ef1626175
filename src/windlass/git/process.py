"""One child process in a process group of its own, bounded in every direction.

Time, output, memory and file size are limited. Whatever happens (deadline, cancellation, too much
output, normal end), no process of the group is alive afterwards.
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
# A limit that cannot be set is already lower. SIGXFSZ is ignored, so that a file that would grow
# too large is an error that git reports, instead of a signal that kills it silently.
_BIND_AND_START = (
    'trap "" XFSZ; ulimit -c 0; ulimit -v "$1" 2>/dev/null; ulimit -f "$2" 2>/dev/null;'
    ' shift 2; exec "$@"'
)


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """The resources that a child may use."""

    deadline_seconds: float
    stdout_bytes: int
    stderr_bytes: int
    memory_bytes: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended; `overflowed`: it was killed for printing too much."""

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
    """Run a child to its end; TimeoutError where the deadline comes first.

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
            return await _communicate(process, stdin, limits, sink)
        finally:
            await process_group.end(process)


async def _communicate(
    process: Process, stdin: bytes, limits: ProcessLimits, sink: Callable[[bytes], object] | None
) -> Ended:
    assert process.stdout is not None
    assert process.stderr is not None
    if sink is not None:
        reading_stdout = _stream_to(process.stdout, sink)
    else:
        reading_stdout = _read(process, process.stdout, limits.stdout_bytes)
    reading_stderr = asyncio.ensure_future(_read(process, process.stderr, limits.stderr_bytes))
    writing_stdin = asyncio.ensure_future(_feed(process, stdin))
    try:
        stdout, stdout_overflowed = await reading_stdout
        (stderr, stderr_overflowed), _, returncode = await asyncio.gather(
            reading_stderr, writing_stdin, process.wait()
        )
    finally:
        # After a failing sink they still wait at their pipes, which one reader at a time may use.
        for task in (reading_stderr, writing_stdin):
            task.cancel()
        await asyncio.gather(reading_stderr, writing_stdin, return_exceptions=True)
    return Ended(returncode, stdout, stderr, stdout_overflowed or stderr_overflowed)


def _limited(argv: Sequence[str], limits: ProcessLimits) -> list[str]:
    """The command, started by a shell that first limits itself, and so all its descendants.

    Limits set from outside would miss what the child has already started, and code between
    fork and exec is unsafe with threads. The script is fixed; the command is its arguments.
    """
    memory_kib, file_blocks = limits.memory_bytes // 1024, limits.file_bytes // 512
    return [_SHELL, "-c", _BIND_AND_START, "sh", str(memory_kib), str(file_blocks), *argv]


async def _read(
    process: Process, stream: asyncio.StreamReader, limit_bytes: int
) -> tuple[bytes, bool]:
    content = bytearray()
    overflowed = False
    while chunk := await stream.read(_CHUNK):
        if len(content) + len(chunk) > limit_bytes:
            overflowed = True
            process_group.kill(process)
        else:
            content += chunk
    return bytes(content), overflowed


async def _stream_to(
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
