"""Row `environments`: how long the operator itself takes, for twenty copies asked for at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from bench.figure import Figure, at_most, percentile
from bench.ground import Ground
from tests.support.previews import CONFIG_MAP, SERVICE, Previews, previews

COPIES = 20
OBJECTS = 8


def measure(ground: Ground) -> Iterator[Figure]:
    """From an Environment's creation until all of its objects are applied."""
    took = asyncio.run(_measured(ground))
    yield Figure(
        "environments",
        f"{COPIES} Environments of {OBJECTS} objects at once, p95 of asked to applied",
        f"{percentile(took, 0.95):.2f} s",
        percentile(took, 0.95),
        "s",
        goal=at_most(2),
        note=f"p50 {percentile(took, 0.5):.2f} s; namespace, fence and quota included, no pods",
    )


async def _measured(ground: Ground) -> list[float]:
    namespace = ground.namespace("previews")
    directory = ground.directory / "previews"
    directory.mkdir()
    async with previews(ground.desk, namespace, ground.git, directory) as tenant:
        maps = [CONFIG_MAP.replace("settings", f"settings-{n}") for n in range(OBJECTS - 1)]
        tenant.commit({"deploy/all.yaml": "---\n".join([*maps, SERVICE])})
        async with tenant.running(poll_seconds=600.0):
            await tenant.apply(tenant.project(), tenant.environment("warm"))
            await tenant.phase("Ready", "warm", seconds=60.0)
            with ground.progress.step(f"environments: {COPIES} at once"):
                return await asyncio.gather(*(_one(tenant, n) for n in range(COPIES)))


async def _one(tenant: Previews, number: int) -> float:
    began = time.perf_counter()
    await tenant.apply(tenant.environment(f"copy-{number}"))
    await tenant.phase("Ready", f"copy-{number}", seconds=60.0)
    return time.perf_counter() - began
