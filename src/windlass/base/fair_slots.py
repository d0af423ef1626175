"""Slots for calls that may take long, shared fairly between namespaces and hosts.

Two bounds hold at any time: the calls in all, and the calls to one host. Within them nothing is
reserved: a namespace that is alone may use every slot.

| a slot is free | it goes to the waiting call |
|---|---|
| first | whose namespace has the fewest calls running |
| of equals | whose host has the fewest calls running |
| of equals | that waits the longest |

A call that waits for a full pool (all slots, or those of its host) takes one from a namespace that
has at least two more calls in it than its own: of that namespace's calls that ran for at least
`min_seconds` the one that began last is cancelled, and its `hold` raises `SlotRevoked`. So a server
that answers one byte at a time delays the namespaces that use it, and no other. Of several calls
those that began first go on, so each namespace makes progress. A call without a host is local and
ends soon; it is not cancelled.

`namespace_context` says on whose behalf the calls of a task are made.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field

MIN_SECONDS = 2.0
"""How long a call runs at least before it may lose its slot; most listings take less."""

_NAMESPACE: contextvars.ContextVar[str] = contextvars.ContextVar("namespace", default="")


@contextlib.contextmanager
def namespace_context(namespace: str) -> Iterator[None]:
    """Count the calls of this block, and of tasks it creates, for `namespace`."""
    token = _NAMESPACE.set(namespace)
    try:
        yield
    finally:
        _NAMESPACE.reset(token)


class SlotRevoked(Exception):
    """The call was cancelled because calls of other namespaces waited; it may be repeated."""


@dataclass(eq=False, slots=True)
class _Call:
    """A call that waits for a slot, or holds one."""

    namespace: str
    host: str  # empty: only the bound of all calls applies
    number: int  # in the order of arrival
    granted: asyncio.Future[None]  # done once the call holds a slot
    timeout: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))  # revokes it
    began_at: float = 0.0  # when it got its slot, on the clock of the loop
    is_revoked: bool = False


class FairSlots:
    """The slots of one process: `most` in all, `most_per_host` for each host."""

    def __init__(self, most: int, most_per_host: int, *, min_seconds: float = MIN_SECONDS) -> None:
        self._most = most
        self._most_per_host = most_per_host
        self._min_seconds = min_seconds
        self._numbers = itertools.count()
        # Calls without a slot, by namespace and host, longest wait first; no empty entries.
        self._waiting: dict[tuple[str, str], dict[int, _Call]] = {}
        # Calls with a slot, in the order in which they got it.
        self._running: dict[int, _Call] = {}
        # Fires when the next call has run long enough to lose its slot.
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def hold(self, host: str) -> AsyncIterator[None]:
        """Hold a slot for the block; SlotRevoked where it was taken away before the end."""
        loop = asyncio.get_running_loop()
        call = _Call(_NAMESPACE.get(), host, next(self._numbers), loop.create_future())
        self._waiting.setdefault((call.namespace, host), {})[call.number] = call
        try:
            async with call.timeout:
                self._assign()
                await call.granted
                yield
        except TimeoutError as error:
            if call.timeout.expired():
                raise SlotRevoked from error
            raise
        finally:
            self._remove(call)
            self._assign()

    def _assign(self) -> None:
        """Give free slots to waiting calls; where none is free, revoke one for those who wait."""
        while (call := self._next_call()) is not None:
            self._take_from_line(call)
            self._running[call.number] = call
            call.began_at = asyncio.get_running_loop().time()
            if not call.granted.done():  # else its caller was cancelled and is about to remove it
                call.granted.set_result(None)
        self._revoke_excess()

    def _next_call(self) -> _Call | None:
        """The waiting call that is next, by the table above; None where no slot is free for any."""
        if len(self._running) >= self._most:
            return None
        by_namespace = Counter(call.namespace for call in self._running.values())
        by_host = Counter(call.host for call in self._running.values())
        first_of_each = (next(iter(line.values())) for line in self._waiting.values())
        return min(
            (call for call in first_of_each if not self._is_full(call.host, by_host)),
            key=lambda call: (by_namespace[call.namespace], by_host[call.host], call.number),
            default=None,
        )

    def _is_full(self, host: str, by_host: Counter[str]) -> bool:
        return bool(host) and by_host[host] >= self._most_per_host

    def _revoke_excess(self) -> None:
        """Revoke one slot in each full pool that a poorer namespace waits for."""
        by_host = Counter(call.host for call in self._running.values())
        for pool, namespaces in self._contested_pools(by_host).items():
            calls = [call for call in self._running.values() if pool in ("", call.host)]
            # One at a time: its end gives a slot to a waiting call, and brings us here again.
            if not any(call.is_revoked for call in calls):
                self._revoke(_excess_calls(calls, namespaces))

    def _contested_pools(self, by_host: Counter[str]) -> dict[str, set[str]]:
        """Full pools with the namespaces that wait for them; the pool of all calls is ""."""
        pools: dict[str, set[str]] = {}
        for namespace, host in self._waiting:
            is_host_full = self._is_full(host, by_host)
            if is_host_full or len(self._running) >= self._most:
                pools.setdefault(host if is_host_full else "", set()).add(namespace)
        return pools

    def _revoke(self, excess: list[_Call]) -> None:
        """Revoke the newest of the calls that ran long enough, or wait until the first has."""
        now = asyncio.get_running_loop().time()
        ripe = [call for call in excess if now - call.began_at >= self._min_seconds]
        if ripe:
            ripe[-1].is_revoked = True
            ripe[-1].timeout.reschedule(now)
        elif excess:
            self._check_at(excess[0].began_at + self._min_seconds)

    def _check_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._revoke_excess()

    def _take_from_line(self, call: _Call) -> None:
        line = self._waiting[call.namespace, call.host]
        del line[call.number]
        if not line:
            del self._waiting[call.namespace, call.host]

    def _remove(self, call: _Call) -> None:
        """Forget a call that ended, in line or with a slot."""
        if self._running.pop(call.number, None) is None:
            self._take_from_line(call)


def _excess_calls(calls: list[_Call], waiting: Iterable[str]) -> list[_Call]:
    """The calls of the richest namespace, if it has two more than the poorest that waits."""
    count = Counter(call.namespace for call in calls)
    poorest = min(count[namespace] for namespace in waiting)
    richest, most = max(count.items(), key=lambda item: item[1])
    if most < poorest + 2:
        return []
    return [call for call in calls if call.namespace == richest and call.host]
