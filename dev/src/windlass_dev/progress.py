"""Progress reporters: what a long command is doing and for how long, on stderr.

`report` is for an event, `step` for work that takes time. On a terminal a step is one
updated line with a spinner; elsewhere it is a line at its start and its end with a
heartbeat between, so that a log never seems to hang.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol, TextIO

HEARTBEAT_SECONDS = 15.0


class ProgressReporter(Protocol):
    """Receives the progress of a long command."""

    def report(self, text: str) -> None:
        """Report an event."""

    def step(self, text: str) -> AbstractContextManager[None]:
        """Report work that takes time, around that work."""
        ...


class SilentReporter:
    """Drops everything: the default where no progress is shown."""

    def report(self, text: str) -> None:
        """Drop `text`."""

    def step(self, text: str) -> AbstractContextManager[None]:
        return contextlib.nullcontext()


class LineReporter:
    """Plain lines, each with the seconds since the reporter was created."""

    def __init__(self, stream: TextIO, *, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> None:
        self._stream = stream
        self._heartbeat_seconds = heartbeat_seconds
        self._started = time.monotonic()

    def report(self, text: str) -> None:
        elapsed = time.monotonic() - self._started
        self._stream.write(f"[{elapsed:6.1f}s] {text}\n")
        self._stream.flush()

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[None]:
        started = time.monotonic()
        self.report(f"{text} ...")
        with self._heartbeat(text, started):
            yield
        self.report(f"{text}: done in {time.monotonic() - started:.1f}s")

    @contextlib.contextmanager
    def _heartbeat(self, text: str, started: float) -> Iterator[None]:
        done = threading.Event()

        def beat() -> None:
            while not done.wait(self._heartbeat_seconds):
                self.report(f"{text}: still running after {time.monotonic() - started:.0f}s")

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


class TerminalReporter:
    """One updated line per step on a terminal, with a spinner and the elapsed time."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)

    def report(self, text: str) -> None:
        self._console.print(text, markup=False)

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[None]:
        from rich.progress import Progress as Bars
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        started = time.monotonic()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Bars(*columns, console=self._console, transient=True) as bars:
            bars.add_task(text, total=None)
            yield
        self.report(f"✓ {text} ({time.monotonic() - started:.1f}s)")


def reporter_for(stream: TextIO) -> ProgressReporter:
    """A reporter for `stream`: updated lines on a terminal, plain lines elsewhere."""
    return TerminalReporter() if stream.isatty() else LineReporter(stream)
