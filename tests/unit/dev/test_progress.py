"""Progress lines."""

from __future__ import annotations

import io
import threading

from windlass_dev.progress import LineReporter


class _Watched(io.StringIO):
    """A stream that signals when a heartbeat was written."""

    def __init__(self) -> None:
        super().__init__()
        self.beaten = threading.Event()

    def write(self, text: str) -> int:
        if "still running" in text:
            self.beaten.set()
        return super().write(text)


def test_step_has_a_beginning_a_heartbeat_and_an_end() -> None:
    """A long step never looks hung in a log."""
    stream = _Watched()
    with LineReporter(stream, heartbeat_seconds=0.001).step("building x"):
        assert stream.beaten.wait(10)
    lines = stream.getvalue().splitlines()
    assert lines[0].endswith("building x ...")
    assert "still running" in lines[1]
    assert "building x: done in" in lines[-1]
