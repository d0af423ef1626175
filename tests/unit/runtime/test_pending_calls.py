"""Slow calls run beside the workers, and the key is queued again with the answer."""

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
    """Answers when it is released."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.queued: list[Key] = []
        self.asked: list[str] = []
        self.namespaces: list[str] = []
        self.calls = PendingCalls(self.queued.append)

    async def answer(self, question: str) -> str:
        self.asked.append(question)
        self.namespaces.append(fair_slots._NAMESPACE.get())
        await self.gate.wait()
        if question == "bad":
            raise Retryable("Unavailable", "down")
        return question.upper()

    async def ask(self, question: str, purpose: str = "listing") -> str:
        def start() -> Coroutine[Any, Any, str]:
            return self.answer(question)

        return await self.calls.result(KEY, purpose, question, start)


async def test_a_reconcile_asks_returns_and_comes_again_with_the_answer() -> None:
    """However often it comes meanwhile, one call is made, for the namespace of the key."""
    server = Server()
    for _ in range(3):
        with pytest.raises(Pending):
            await server.ask("a")
    assert server.queued == []
    server.gate.set()
    await asyncio.sleep(0.01)
    assert server.queued == [KEY]
    assert await server.ask("a") == "A"
    assert (server.asked, server.namespaces) == (["a"], ["team"])
    assert fair_slots._NAMESPACE.get() == ""


async def test_an_answer_is_given_out_once() -> None:
    """The next reconcile asks again; what needs no waiting is answered at once."""
    server = Server()
    server.gate.set()
    assert await server.ask("a") == "A"
    assert await server.ask("a") == "A"
    assert server.asked == ["a", "a"]
    assert not server.calls.is_known(KEY, "listing")


async def test_an_error_is_raised_by_the_reconcile_that_gets_it() -> None:
    """With the decision it carries."""
    server = Server()
    with pytest.raises(Pending):
        await server.ask("bad")
    server.gate.set()
    await asyncio.sleep(0.01)
    with pytest.raises(Retryable):
        await server.ask("bad")
    assert server.queued == [KEY]


async def test_another_query_replaces_the_one_under_way() -> None:
    """The old answer is never given out, and its end queues nothing."""
    server = Server()
    with pytest.raises(Pending):
        await server.ask("a")
    with pytest.raises(Pending):
        await server.ask("b")
    server.gate.set()
    await asyncio.sleep(0.01)
    assert server.queued == [KEY]
    assert await server.ask("b") == "B"


async def test_calls_of_different_purposes_do_not_disturb_each_other() -> None:
    """A reconcile may wait for several answers."""
    server = Server()
    for purpose in ("one", "two"):
        with pytest.raises(Pending):
            await server.ask("a", purpose)
    server.gate.set()
    await asyncio.sleep(0.01)
    assert [await server.ask("a", purpose) for purpose in ("one", "two")] == ["A", "A"]
    assert len(server.asked) == 2


async def test_what_is_gone_is_not_waited_for() -> None:
    """Its calls are canceled and queue nothing; so are all at the end."""
    server = Server()
    with pytest.raises(Pending):
        await server.ask("a")
    server.calls.forget(KEY)
    server.gate.set()
    await asyncio.sleep(0.01)
    assert server.queued == []
    server.gate.clear()
    with pytest.raises(Pending):
        await server.ask("a")
    await server.calls.close()
    assert not server.calls.is_known(KEY, "listing")
