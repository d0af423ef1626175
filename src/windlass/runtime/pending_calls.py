"""Slow calls of reconciles, run beside the workers.

A worker never waits for a Git server or for a chart: `result` starts the call, raises `Pending`,
and the key is queued again when the answer is there; the next reconcile gets it from `result`.

    reconcile ──result──▶ started ──Pending──▶ the worker is free
                              └──(done)──▶ the key is queued ──▶ reconcile ──result──▶ the answer

A call is found by key and purpose. The `query` says what was asked: where a later reconcile asks
something else, the call is canceled and a new one starts. An answer is given out once. All methods
are called on the thread of the loop; `forget` what is gone, and `close` at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from windlass.base import fair_slots
from windlass.base.errors import Pending
from windlass.objects.names import Key

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Call:
    """A call under way, or one whose answer was not taken yet."""

    query: object
    task: asyncio.Task[Any]
    began_at: float  # on the clock of the loop


class PendingCalls:
    """Calls of the objects of one controller; `enqueue` gets the key of each that was answered."""

    def __init__(self, enqueue: Callable[[Key], None]) -> None:
        self._enqueue = enqueue
        # By object, then by purpose; until the answer is taken.
        self._calls: dict[Key, dict[str, _Call]] = {}

    async def result(
        self, key: Key, purpose: str, query: object, start: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        """The answer to `query`, or the error that `start` raised; Pending while there is none."""
        call = self._calls.get(key, {}).get(purpose)
        if call is None or call.query != query:
            call = self._start(key, purpose, query, start)
            # What needs no answer from elsewhere is done after one step.
            await asyncio.sleep(0)
        if not call.task.done():
            raise Pending(asyncio.get_running_loop().time() - call.began_at)
        self._drop(key, purpose)
        answer: T = call.task.result()
        return answer

    def is_known(self, key: Key, purpose: str) -> bool:
        """Whether a call is under way, or its answer was not taken yet."""
        return purpose in self._calls.get(key, ())

    def forget(self, key: Key) -> None:
        """Cancel the calls of an object that is gone."""
        for purpose in list(self._calls.get(key, ())):
            self._drop(key, purpose)

    async def close(self) -> None:
        """Cancel all calls, and wait for their end."""
        tasks = [call.task for calls in self._calls.values() for call in calls.values()]
        for key in list(self._calls):
            self.forget(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(
        self, key: Key, purpose: str, query: object, start: Callable[[], Coroutine[Any, Any, T]]
    ) -> _Call:
        self._drop(key, purpose)
        with fair_slots.namespace_context(key.namespace):
            task = asyncio.create_task(start(), name=f"{purpose} of {key}")
        call = _Call(query, task, asyncio.get_running_loop().time())
        self._calls.setdefault(key, {})[purpose] = call
        task.add_done_callback(lambda _: self._finished(key, purpose, call))
        return call

    def _finished(self, key: Key, purpose: str, call: _Call) -> None:
        if not call.task.cancelled():
            # Retrieved here, so that asyncio does not warn where the answer is never taken.
            call.task.exception()
        if self._calls.get(key, {}).get(purpose) is call:
            self._enqueue(key)

    def _drop(self, key: Key, purpose: str) -> None:
        calls = self._calls.get(key, {})
        call = calls.pop(purpose, None)
        if call is not None:
            call.task.cancel()
        if not calls:
            self._calls.pop(key, None)
