"""Row `memory`: what the operator's process holds while it follows 20 000 objects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, at_most
from bench.testbed import Testbed, await_files, await_synced

OBJECTS = 20_000


def measure(testbed: Testbed) -> Iterator[Figure]:
    """Resident memory once all of them are watched and mirrored."""
    namespace = testbed.crowd(OBJECTS)
    with (
        testbed.operator("memory") as operator,
        testbed.mirrored(namespace, "memory.git") as joined,
        testbed.progress.step(f"memory: first sync of {OBJECTS} objects"),
    ):
        empty = resident_mib(operator.pid)
        joined.admin.apply(joined.watch_rule({"resources": ["configmaps"]}))
        await_files(joined, OBJECTS, seconds=240)
        await_synced(joined, seconds=60)
        full = resident_mib(operator.pid)
        webhook = sum(resident_mib(child) for child in _children(operator.pid))
        mapped = _status_mib(operator.pid, "RssFile")
        peak = _status_mib(operator.pid, "VmHWM")
    yield Figure(
        "memory",
        f"RSS with {OBJECTS} watched objects",
        f"{full:.0f} MiB",
        full,
        "MiB",
        goal=at_most(120),
        note=(
            f"{mapped:.0f} MiB of it are mapped files; with no rule {empty:.0f} MiB, peak during "
            f"the first sync {peak:.0f} MiB, "
            f"admission webhook (a process of its own) {webhook:.0f} MiB"
        ),
    )


def resident_mib(pid: int) -> float:
    """The resident memory of one process."""
    return _status_mib(pid, "VmRSS")


def _status_mib(pid: int, field: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]
