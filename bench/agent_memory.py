"""Row `agent-memory`: what an agent holds while it brings 200 MB onto a gateway's disk."""

from __future__ import annotations

from collections.abc import Iterator

from bench.figure import Figure, at_most
from bench.testbed import Testbed
from tests.support.gateways import engine_memory

SMALL, LARGE = 800, 4


def measure(testbed: Testbed) -> Iterator[Figure]:
    """The most that its process ever held; git's own children are not among it."""
    place = testbed.directory / "agent-memory"
    place.mkdir()
    with testbed.progress.step("agent-memory: 200 MB in 804 files"):
        peak = engine_memory.peak_mib(place, small=SMALL, large=LARGE)
    yield Figure(
        "agent-memory",
        "peak RSS of a first sync of 200 MB",
        f"{peak} MiB",
        float(peak),
        "MiB",
        goal=at_most(90),
        note=f"{SMALL} files of 50 KB and {LARGE} of 40 MB that do not compress",
    )
