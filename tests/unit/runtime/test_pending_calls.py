"""Slow calls run beside the workers, and the key is queued again with the result."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from windlass.base import fair_slots
from windlass.base.errors import Pending, Retryable
from windlass.objects.names import Key
from windlass.runtime.pending_calls import PendingCalls

KEY = Key("team", "one")


class Server:
    """Responds when it is released."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.queued: list[Key] = []
        self.queries: list[str] = []
        self.namespaces: list[str] = []
        self.calls = PendingCalls(self.queued.append)

    async def answer(self, question: str) -> str:
        self.queries.append(question)
        self.namespaces.append(fair_slots._NAMESPACE.get())
        await self.gate.wait()
        if question == "bad":
            raise Retryable("Unavailable", "down")
        return question.upper()

    async def call(self, question: str, purpose: str = "listing") -> str:
        def start() -> Coroutine[Any, Any, str]:
            return self.answer(question)

        return await self.calls.result(KEY, purpose, question, start)


async def test_a_reconcile_is_requeued_with_the_result_of_its_call() -> None:
    """One call is made for any number of reconciles meanwhile, in the namespace of the key."""
    server = Server()
    for _ in range(3):
        with pytest.raises(Pending):
            await server.call("a")
    assert server.queued == []
    server.gate.set()
    await asyncio.sleep(0.01)
    assert server.queued == [KEY]
    assert await server.call("a") == "A"
    assert (server.queries, server.namespaces) == (["a"], ["team"])
    assert fair_slots._NAMESPACE.get() == ""


async def test_a_result_is_returned_once() -> None:
    """The next reconcile calls again; a call that need not wait returns at once."""
    server = Server()
    server.gate.set()
    assert await server.call("a") == "A"
    assert await server.call("a") == "A"
    assert server.queries == ["a", "a"]
    assert not server.calls.is_known(KEY, "listing")


async def test_an_error_is_raised_by_the_reconcile_that_gets_it() -> None:
    """With its decision."""
    server = Server()
    with pytest.raises(Pending):
        await server.call("bad")
    server.gate.set()
    await asyncio.sleep(0.01)
    with pytest.raises(Retryable):
        await server.call("bad")
    assert server.queued == [KEY]


async def test_another_query_replaces_the_one_under_way() -> None:
    """The old result is never returned, and its end queues nothing."""
    server = Server()
    with pytest.raises(Pending):
        await server.call("a")
    with pytest.raises(Pending):
        await server.call("b")
    server.gate.set()
    await asyncio.sleep(0.01)
    assert server.queued == [KEY]
    assert await server.call("b") == "B"


async def test_calls_for_different_purposes_are_independent() -> None:
    """A reconcile may wait for several results."""
    server = Server()
    for purpose in ("one", "two"):
        with pytest.raises(Pending):
            await server.call("a", purpose)
    server.gate.set()
    await asyncio.sleep(0.01)
    assert [await server.call("a", purpose) for purpose in ("one", "two")] == ["A", "A"]
    assert len(server.queries) == 2


async def test_what_is_gone_is_not_waited_for() -> None:
    """Its calls are canceled and queue nothing; so are all at the end."""
    server = Server()
    with pytest.raises(Pending):
        await server.call("a")
    server.calls.forget(KEY)
    server.gate.set()
    await asyncio.sleep(0.01)
    assert server.queued == []
    server.gate.clear()
    with pytest.raises(Pending):
        await server.call("a")
    await server.calls.close()
    assert not server.calls.is_known(KEY, "listing")
