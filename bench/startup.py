"""Row `startup`: how long a person waits for `windlass dev up` and for `windlass --help`."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, at_most, median
from bench.ground import Ground
from windlass.dev import binaries, cluster

_NAME = "bench-up"
_UPS = 3
_HELPS = 10
_COMMAND = str(Path(sys.executable).with_name("windlass"))


def measure(ground: Ground) -> Iterator[Figure]:
    """Wall time of both, as a user would see it."""
    with ground.progress.step("startup: finding the programs"):
        programs = binaries.locate(None, ground.progress)
    with ground.progress.step(f"startup: windlass dev up, {_UPS} times"):
        ups = [_up() for _ in range(_UPS)]
    yield Figure(
        "startup",
        "windlass dev up, programs at hand",
        f"{median(ups):.1f} s",
        median(ups),
        "s",
        goal=at_most(6),
        note=f"median of {_UPS}: empty directory to a ready control plane",
    )
    ours, kubectl = [], []
    for _ in range(_HELPS):
        ours.append(_seconds(_COMMAND, "--help"))
        kubectl.append(_seconds(str(programs["kubectl"]), "--help"))
    yield Figure(
        "startup",
        "windlass --help",
        f"{median(ours):.2f} s",
        median(ours),
        "s",
        f"{median(kubectl):.2f} s",
        at_most(0.3),
        f"median of {_HELPS}; the other is kubectl --help",
    )


def _up() -> float:
    cluster.down(_NAME)
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.down, _NAME)
        return _seconds(_COMMAND, "dev", "up", "--name", _NAME)


def _seconds(*command: str) -> float:
    began = time.monotonic()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    return time.monotonic() - began
