"""Row `startup`: how long a person waits for `windlass dev up`, `dev down` and `--help`."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, at_most, median
from bench.testbed import Testbed
from windlass_dev.cluster import cluster
from windlass_dev.node import requirements
from windlass_dev.programs import provider

_NAME = "bench-up"
_UPS = 3
_HELPS = 10
_COMMAND = str(Path(sys.executable).with_name("windlass"))


def measure(testbed: Testbed) -> Iterator[Figure]:
    """Wall time of both, as a user would see it."""
    with testbed.progress.step("startup: finding the programs"):
        found = provider.provide_tools(None, testbed.progress)
    with testbed.progress.step(f"startup: windlass dev up, {_UPS} times"):
        ups = [_up()[0] for _ in range(_UPS)]
    yield Figure(
        "startup",
        "windlass dev up, programs at hand",
        f"{median(ups):.1f} s",
        median(ups),
        "s",
        goal=at_most(6),
        note=f"median of {_UPS}: empty directory to a ready control plane",
    )
    yield from _with_node(testbed)
    ours, kubectl = [], []
    for _ in range(_HELPS):
        ours.append(_seconds(_COMMAND, "--help"))
        kubectl.append(_seconds(str(found["kubectl"]), "--help"))
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


def _with_node(testbed: Testbed) -> Iterator[Figure]:
    """The same with a node, where one can run."""
    problem = requirements.unmet_requirement()
    if problem:
        testbed.progress.report(f"startup: no figures with a node: {problem}")
        return
    with testbed.progress.step("startup: finding the node's programs"):
        provider.provide_programs(None, testbed.progress, node=True)
    with testbed.progress.step(f"startup: windlass dev up --node, {_UPS} times"):
        rounds = [_up("--node") for _ in range(_UPS)]
    ups, downs = [up for up, _ in rounds], [down for _, down in rounds]
    yield Figure(
        "startup",
        "windlass dev up --node, programs at hand",
        f"{median(ups):.1f} s",
        median(ups),
        "s",
        goal=at_most(12),
        note=f"median of {_UPS}: empty directory to a node that is ready",
    )
    yield Figure(
        "startup",
        "windlass dev down, of a cluster with a node",
        f"{median(downs):.1f} s",
        median(downs),
        "s",
        goal=at_most(3),
        note=f"median of {_UPS}: until nothing is left",
    )


def _up(*options: str) -> tuple[float, float]:
    """Seconds until a cluster is up, and until it is gone again."""
    cluster.down(_NAME)
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.down, _NAME)
        up = _seconds(_COMMAND, "dev", "up", "--name", _NAME, *options)
        return up, _seconds(_COMMAND, "dev", "down", "--name", _NAME)


def _seconds(*command: str) -> float:
    began = time.monotonic()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    return time.monotonic() - began
