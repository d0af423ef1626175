"""The `windlass` command as a process of its own, forked where its modules are loaded already.

A test that kills and restarts an operator would spend most of its time on imports. Each
process here has a session, an environment, files and signals of its own, as one that was
started from a shell has; only its command line, as the kernel shows it, is that of the
process it was forked from. Tests of that line, or of memory, start the real one.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.support.processes.preloaded_modules"])

COMMAND = str(Path(sys.executable).with_name("windlass"))


class StartedProcess(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int, /) -> None: ...


Starting = Callable[[Sequence[str], Mapping[str, str], Path], StartedProcess]
"""Starts `windlass` with arguments and an environment; what it prints is added to a file."""


class ForkedProcess:
    """A forked process, with the interface of `subprocess.Popen`."""

    def __init__(self, process: multiprocessing.process.BaseProcess) -> None:
        assert process.pid is not None
        self.pid = process.pid
        self._process = process

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(COMMAND, timeout or 0.0)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)


def start(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> StartedProcess:
    """Start `windlass` with these arguments; its output is appended to `log`."""
    return _fork(arguments, environment, Path.cwd(), (log, log))


def run(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    cwd: Path | None = None,
    seconds: float = 120.0,
) -> subprocess.CompletedProcess[str]:
    """Run `windlass` to its end."""
    with tempfile.TemporaryDirectory() as directory:
        outputs = (Path(directory) / "out", Path(directory) / "err")
        code = _fork(arguments, environment, cwd or Path.cwd(), outputs).wait(seconds)
        texts = (path.read_text() for path in outputs)
        return subprocess.CompletedProcess([COMMAND, *arguments], code, *texts)


def _fork(
    arguments: Sequence[str], environment: Mapping[str, str], cwd: Path, outputs: tuple[Path, Path]
) -> ForkedProcess:
    process = _FORKING.Process(
        target=_run_in_child, args=([*arguments], {**environment}, cwd, outputs)
    )
    process.start()
    return ForkedProcess(process)


def start_executable(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    *,
    command: Sequence[str] = (COMMAND,),
) -> StartedProcess:
    """The same from a new interpreter, as a shell does it; `command` may replace it."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [*command, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _run_in_child(
    arguments: list[str], environment: dict[str, str], cwd: Path, outputs: tuple[Path, Path]
) -> None:
    os.setsid()
    os.chdir(cwd)
    for path, descriptor in zip((Path(os.devnull), *outputs), range(3), strict=True):
        with path.open("rb" if descriptor == 0 else "ab") as file:
            os.dup2(file.fileno(), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [COMMAND, *arguments]
    from windlass.base import failpoint
    from windlass.cli.main import main

    # It asks the environment once, when it is loaded.
    importlib.reload(failpoint)
    main()
