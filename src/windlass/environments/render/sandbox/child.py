"""Runs a program in a confined child process, and maps its exit to an error.

`helm.Helm` is the caller. Limits that hold from outside (time, output, memory, the whole process
group) are those of `git.process`; rights that a process has to give up itself are given up by
`confine`, before the program begins. A child that cannot be confined is not started.
"""

from __future__ import annotations

import math
import os
import platform
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.base import failpoint
from windlass.base.errors import Retryable, Stalled
from windlass.environments.render.manifests import RenderRefused
from windlass.environments.render.sandbox import seccomp
from windlass.git import process
from windlass.git.process import Ended


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """Limits of one render."""

    seconds: float = 60.0  # of wall clock
    memory_bytes: int = 1 << 30
    output_bytes: int = 16 << 20  # on stdout, and of every file


HOME = "home"
"""Name of the directory, below the child's working directory, that it may write to."""

_LAUNCHER = Path(__file__).with_name("confine.py")
_UNCONFINED = 125
"""The launcher's exit status where it did not start the program."""
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
_PROCESSORS = 2
# Go reserves addresses that it never uses; with less than this it does not begin.
_RESERVED_BYTES = 3 << 29
# Helm repeats itself for each level of templates that call each other.
_STDERR_BYTES = 1 << 20
# Messages of a runtime, at the start of a line: a chart may fail with any text of its own.
_OUT_OF_MEMORY = re.compile(
    rb"^(?:(?:fatal error|runtime): .*(?:out of memory|cannot allocate memory)|MemoryError)",
    re.MULTILINE,
)


async def run(
    command: Sequence[str],
    *,
    directory: Path,
    limits: RenderLimits,
    environment: Mapping[str, str],
    readable: Sequence[str] = (),
) -> Ended:
    """Run `command` in `directory`, confined; returns its output and exit status.

    `command` begins with an absolute path. RenderRefused("RenderTooLarge") where a limit ended
    it, Stalled("SandboxUnavailable") where it could not be confined or started, Retryable of the
    same reason where this machine has no room for a process.
    """
    roots = (command[0], *_LIBRARIES, *readable)
    seconds = math.ceil(limits.seconds) * _PROCESSORS
    launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), str(seconds)]
    failpoint.reach("environments.sandbox.before")
    try:
        ended = await process.run(
            [*launcher, _seccomp_filter().hex(), *roots, "--", *command],
            environment={**_base_environment(directory), **environment},
            cwd=directory,
            stdin=b"",
            descriptors=(),
            limits=_process_limits(limits),
        )
    except TimeoutError as error:
        raise _too_slow_error(limits) from error
    except OSError as error:
        raise Retryable(
            "SandboxUnavailable", f"cannot start the render process: {error.strerror}"
        ) from error
    failpoint.reach("environments.sandbox.after")
    _check_exit(ended, limits)
    return ended


def _seccomp_filter() -> bytes:
    machine = platform.machine()
    architecture = seccomp.ARCHITECTURES.get(machine)
    if architecture is None or sys.platform != "linux":
        supported = " or ".join(seccomp.ARCHITECTURES)
        raise Stalled(
            "SandboxUnavailable",
            f"the sandbox for charts needs Linux on {supported}, this is {sys.platform} on "
            f"{machine}; run the operator there, or use a template of type manifest",
        )
    return seccomp.program(architecture)


def _base_environment(directory: Path) -> dict[str, str]:
    """The whole environment of a child; nothing is inherited from the operator."""
    home = str(directory / HOME)
    directories = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    return {
        **dict.fromkeys(directories, home),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "GOMAXPROCS": str(_PROCESSORS),
        "GOTRACEBACK": "none",
    }


def _process_limits(limits: RenderLimits) -> process.ProcessLimits:
    return process.ProcessLimits(
        deadline_seconds=limits.seconds,
        stdout_bytes=limits.output_bytes,
        stderr_bytes=_STDERR_BYTES,
        memory_bytes=limits.memory_bytes + _RESERVED_BYTES,
        file_bytes=limits.output_bytes,
    )


def _check_exit(ended: Ended, limits: RenderLimits) -> None:
    """Raise where a limit or the launcher ended the child, not the program itself."""
    if ended.returncode == _UNCONFINED:
        text = ended.stderr.decode("utf-8", "replace").strip()[:500]
        raise Stalled(
            "SandboxUnavailable",
            f"cannot confine the render process: {text}; allow seccomp filters in the operator's "
            "container, and check that the program in --environments-helm runs on this machine",
        )
    if ended.returncode != 0 and _OUT_OF_MEMORY.search(ended.stderr):
        raise _memory_error(limits)
    if ended.overflowed:
        raise RenderRefused(
            "RenderTooLarge",
            f"rendering exceeded {limits.output_bytes >> 20} MiB of output or "
            f"{_STDERR_BYTES >> 20} MiB of error output; make the chart smaller",
        )
    if ended.returncode == -signal.SIGXCPU:
        raise _too_slow_error(limits)
    if ended.returncode == -signal.SIGKILL:
        raise _memory_error(limits)


def _too_slow_error(limits: RenderLimits) -> RenderRefused:
    return RenderRefused(
        "RenderTooLarge",
        f"rendering exceeded {limits.seconds:g} s; check the templates for loops",
    )


def _memory_error(limits: RenderLimits) -> RenderRefused:
    return RenderRefused(
        "RenderTooLarge",
        f"rendering exceeded {limits.memory_bytes >> 20} MiB of memory; check the templates for "
        "loops, or make the values smaller",
    )
