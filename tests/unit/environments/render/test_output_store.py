"""Stored output of charts, so that the same inputs give the same objects."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest

from tests.support.environments.manifests import OWNER
from windlass.environments.render import output_store
from windlass.environments.render.output_store import ChartOutput, OutputMemory, OutputStore
from windlass.kube.errors import NotFound
from windlass.objects.names import GVR, Object

NAMESPACE = "env-shop-pr-1"


class Server:
    """One Secret, or none."""

    def __init__(self) -> None:
        self.stored: Object | None = None
        self.reads = 0

    async def get(self, gvr: GVR, name: str, namespace: str) -> Object:
        self.reads += 1
        if self.stored is None:
            raise NotFound(404, "NotFound", "no such Secret")
        return self.stored

    async def apply(self, gvr: GVR, obj: Object, *, field_manager: str) -> Object:
        self.stored = obj
        return obj


class Kept:
    """The store of one operator process, with its memory of one namespace."""

    def __init__(self, server: Any) -> None:
        self.store_of_all = OutputStore(server, field_manager="us")
        self.memory = OutputMemory()

    async def get(self) -> ChartOutput | None:
        return await self.store_of_all.get(NAMESPACE, OWNER, self.memory)

    async def store(self, output: ChartOutput) -> bool:
        return await self.store_of_all.store(NAMESPACE, OWNER, output, self.memory)


OUTPUT = ChartOutput("one", b"kind: A" * 99, ("something differs",))


async def test_another_process_reads_the_stored_output() -> None:
    """Text, hash and notes; it is read once."""
    server = Server()
    assert await Kept(server).get() is None
    assert await Kept(server).store(OUTPUT)
    other = Kept(server)
    assert await other.get() == OUTPUT
    reads = server.reads
    assert await other.get() == OUTPUT
    assert server.reads == reads
    other.memory = OutputMemory()  # as with a namespace that is recreated
    server.stored = None
    assert await other.get() is None


async def test_an_output_that_is_too_large_is_kept_in_memory_alone() -> None:
    """And the result says that a restart will not have it."""
    server = Server()
    kept = Kept(server)
    large = ChartOutput("one", random.Random(1).randbytes(output_store.MOST_BYTES + 1))
    assert not await kept.store(large)
    assert server.stored is None
    assert await kept.get() == large
    assert not await kept.store(large)


@pytest.mark.parametrize("spoiled", ["", "!", base64.b64encode(b"no gzip").decode(), "cut"])
async def test_a_spoiled_secret_counts_as_missing(spoiled: str) -> None:
    """So does one with the label of another Environment; without notes the rest counts."""
    server = Server()
    await Kept(server).store(OUTPUT)
    assert server.stored is not None
    whole = server.stored["data"]["output"]
    server.stored["data"]["output"] = whole[:-8] if spoiled == "cut" else spoiled
    assert await Kept(server).get() is None
    server.stored["data"]["output"] = whole
    server.stored["data"]["notes"] = spoiled
    output = await Kept(server).get()
    assert output is not None
    assert (output.text, output.notes) == (OUTPUT.text, ())
    server.stored["metadata"]["annotations"] = {}
    assert await Kept(server).get() is None
