"""Row `request`: CPU time per request to the API server, beside another Python client.

Both read the same object over and over, on kept connections, taking turns in this process;
the clock is its CPU time. The other one builds a model of what it read, as its users have it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

from lightkube import AsyncClient
from lightkube.config.kubeconfig import KubeConfig
from lightkube.resources.core_v1 import ConfigMap

from bench.figure import Figure, median
from bench.samples import CONFIG_MAPS, config_map
from bench.testbed import Testbed
from windlass.kube.api import Api
from windlass.kube.connection import Connection

ROUNDS = 5
REQUESTS = 500
_WARM = 20
_NAME = "request"

Request = Callable[[], Awaitable[object]]


def measure(testbed: Testbed) -> Iterator[Figure]:
    """Microseconds of CPU per object read."""
    namespace = testbed.namespace("request")
    with testbed.progress.step(f"request: {ROUNDS} rounds of {REQUESTS} reads, both ways"):
        ours, theirs = asyncio.run(_measure(testbed, namespace))
    yield Figure(
        "request",
        "CPU per object read beside lightkube",
        f"{ours * 1e6:.0f} us",
        ours / theirs,
        "x of the other",
        f"{theirs * 1e6:.0f} us",
        note=f"medians of {ROUNDS} rounds of {REQUESTS} reads, one after the other",
    )


async def _measure(testbed: Testbed, namespace: str) -> tuple[float, float]:
    kubeconfig = testbed.cluster.admin_kubeconfig
    theirs = AsyncClient(config=KubeConfig.from_file(str(kubeconfig)).get())
    async with Connection.open(kubeconfig=kubeconfig) as connection:
        api = Api(connection)
        await api.create(CONFIG_MAPS, config_map(namespace, _NAME, "0"), field_manager="bench")
        ways: tuple[Request, Request] = (
            lambda: api.get(CONFIG_MAPS, _NAME, namespace),
            lambda: theirs.get(ConfigMap, _NAME, namespace=namespace),
        )
        costs: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):
            for way, cost in zip(ways, costs, strict=True):
                await _time_requests(way, _WARM)
                cost.append(await _time_requests(way, REQUESTS))
    await theirs.close()
    return median(costs[0]), median(costs[1])


async def _time_requests(request: Request, times: int) -> float:
    """CPU seconds per request."""
    began = time.process_time()
    for _ in range(times):
        await request()
    return (time.process_time() - began) / times
