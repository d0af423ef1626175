"""The skeleton of every process: order of starts and stops, signals, probes."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator

from tests.integration.app import three_components
from tests.support.processes.operator import eventually, free_port

STARTS = ["starts first", "starts second", "starts third"]
STOPS = [f"{verb} {name}" for name in ("third", "second", "first") for verb in ("stops", "stopped")]


@contextlib.contextmanager
def _running(port: int, special: str) -> Iterator[subprocess.Popen[str]]:
    program = [sys.executable, str(three_components.__file__), str(port), special]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _lines(process: subprocess.Popen[str], until: str) -> list[str]:
    """What the process prints, up to this line."""
    assert process.stdout is not None
    lines_read: list[str] = []
    while not lines_read or lines_read[-1] != until:
        line = process.stdout.readline()
        assert line, f"the process ended after {lines_read}"
        lines_read.append(line.strip())
    return lines_read


def _probe(port: int, path: str) -> tuple[int, str]:
    try:
        # A process that answers late is not one that does not answer.
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_components_stop_in_reverse_order_and_readiness_ends_first() -> None:
    """From the signal to the end probes are served, and `/readyz` fails."""
    port = free_port()
    with _running(port, "hold") as process:
        assert _lines(process, "starts third") == STARTS
        eventually(lambda: _probe(port, "/readyz") == (200, "ok\n"), "readiness")
        process.send_signal(signal.SIGTERM)
        before = _lines(process, "stops second")
        assert _probe(port, "/readyz") == (503, "test: shutting down\n")
        assert _probe(port, "/healthz") == (200, "ok\n")
        rest, _ = process.communicate("go\n", timeout=30)
        assert before + rest.splitlines() == STOPS
        assert process.returncode == 0


def test_a_component_that_fails_ends_the_process_in_order() -> None:
    """Its error is raised after all have stopped."""
    with _running(0, "fail") as process:
        printed, _ = process.communicate(timeout=30)
        assert printed.splitlines() == [*STARTS, *STOPS, "Broken"]
        assert process.returncode == 1


def test_a_signal_interrupts_a_start() -> None:
    """Started components are stopped, others are never started."""
    with _running(0, "wait") as process:
        _lines(process, "starts second")
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=30)
        assert printed.splitlines() == ["stops first", "stopped first"]
        assert process.returncode == 0
