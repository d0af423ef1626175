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
    """Somebody who listens to what is being done."""

    def report(self, text: str) -> None: ...

    def step(self, text: str) -> AbstractContextManager[None]: ...


class SilentReporter:
    """Nobody listens."""

    def report(self, text: str) -> None:
        """Drop `text`."""

    def step(self, text: str) -> AbstractContextManager[None]:
        return contextlib.nullcontext()


class LineReporter:
    """Plain lines, each with the seconds since the beginning."""

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
        began = time.monotonic()
        self.report(f"{text} ...")
        with self._heartbeat(text, began):
            yield
        self.report(f"{text}: done in {time.monotonic() - began:.1f}s")

    @contextlib.contextmanager
    def _heartbeat(self, text: str, began: float) -> Iterator[None]:
        over = threading.Event()

        def beat() -> None:
            while not over.wait(self._heartbeat_seconds):
                self.report(f"{text}: still at it after {time.monotonic() - began:.0f}s")

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


class TerminalReporter:
    """One living line per step on a terminal, with a spinner and the elapsed time."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)

    def report(self, text: str) -> None:
        self._console.print(text, markup=False)

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[None]:
        from rich.progress import Progress as Bars
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        began = time.monotonic()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Bars(*columns, console=self._console, transient=True) as bars:
            bars.add_task(text, total=None)
            yield
        self.report(f"✓ {text} ({time.monotonic() - began:.1f}s)")


def reporter_for(stream: TextIO) -> ProgressReporter:
    """The listener that fits `stream`."""
    return TerminalReporter() if stream.isatty() else LineReporter(stream)
