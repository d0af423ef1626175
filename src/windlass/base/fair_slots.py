"""Slots for calls that may take long, shared fairly between namespaces and hosts.

Two bounds hold at any time: the calls in all, and the calls to one host. Within them nothing is
reserved: a namespace that is alone may use every slot.

| a free slot goes to | of equals |
|---|---|
| the waiting namespace with the fewest calls running | the one that was served longest ago |
| of its calls, one to the host with the fewest | the host, then the call, that came first |

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
    """The slots of one process: `most` in all, `most_per_host` for each host.

    Between two calls of its methods no waiting call could have a slot. So a new call concerns
    itself alone, and costs the same however many wait.
    """

    def __init__(self, most: int, most_per_host: int, *, min_seconds: float = MIN_SECONDS) -> None:
        self._most = most
        self._most_per_host = most_per_host
        self._min_seconds = min_seconds
        self._numbers = itertools.count()
        # Calls without a slot by namespace, then by host, next one first; no empty entries.
        self._waiting: dict[str, dict[str, dict[int, _Call]]] = {}
        # Calls with a slot, in the order in which they got it.
        self._running: dict[int, _Call] = {}
        # How many of them each namespace has, and each host; no zeros.
        self._by_namespace: Counter[str] = Counter()
        self._by_host: Counter[str] = Counter()
        # Fires when the next call has run long enough to lose its slot.
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def hold(self, host: str) -> AsyncIterator[None]:
        """Hold a slot for the block; SlotRevoked where it was taken away before the end."""
        loop = asyncio.get_running_loop()
        call = _Call(_NAMESPACE.get(), host, next(self._numbers), loop.create_future())
        try:
            async with call.timeout:
                self._add(call)
                await call.granted
                yield
        except TimeoutError as error:
            if call.timeout.expired():
                raise SlotRevoked from error
            raise
        finally:
            self._remove(call)

    def _add(self, call: _Call) -> None:
        if len(self._running) < self._most and self._has_slot(call.host):
            self._grant(call)
            return
        hosts = self._waiting.setdefault(call.namespace, {})
        hosts.setdefault(call.host, {})[call.number] = call
        self._revoke_excess()

    def _remove(self, call: _Call) -> None:
        """Forget a call that ended, in line or with a slot; the slot goes to the next call."""
        if self._running.pop(call.number, None) is None:
            self._take_from_line(call)
            return
        for counter, name in ((self._by_namespace, call.namespace), (self._by_host, call.host)):
            counter[name] -= 1
            if not counter[name]:
                del counter[name]
        next_call = self._next_call()
        if next_call is not None:
            self._take_from_line(next_call)
            self._grant(next_call)
        self._revoke_excess()

    def _grant(self, call: _Call) -> None:
        self._running[call.number] = call
        self._by_namespace[call.namespace] += 1
        self._by_host[call.host] += 1
        call.began_at = asyncio.get_running_loop().time()
        if not call.granted.done():  # else its caller was cancelled and is about to remove it
            call.granted.set_result(None)

    def _next_call(self) -> _Call | None:
        """The waiting call that is next, by the table above; None where no slot is free for any."""
        for namespace in self._by_need():
            host = self._open_host(namespace)
            if host is not None:
                return next(iter(self._waiting[namespace][host].values()))
        return None

    def _by_need(self) -> Iterator[str]:
        """Waiting namespaces, fewest running calls first; those without any as they came."""
        yield from (name for name in self._waiting if name not in self._by_namespace)
        served = [name for name in self._by_namespace if name in self._waiting]
        yield from sorted(served, key=self._by_namespace.__getitem__)

    def _open_host(self, namespace: str) -> str | None:
        """The host that a namespace waits for with the fewest calls, if that has a free slot."""
        hosts = self._waiting[namespace]
        idle = next((host for host in hosts if host not in self._by_host), None)
        if idle is not None:
            return idle
        host = min(hosts, key=self._by_host.__getitem__)
        return host if self._has_slot(host) else None

    def _has_slot(self, host: str) -> bool:
        return not host or self._by_host[host] < self._most_per_host

    def _revoke_excess(self) -> None:
        """Revoke one slot in each full pool that a poorer namespace waits for."""
        if len(self._by_namespace) == len(self._running):
            return  # no namespace has two
        running = list(self._running.values())
        if len(running) >= self._most:
            waiting = (name for name in self._waiting if self._open_host(name) is not None)
            self._revoke_in(running, waiting)
        for host in [host for host in self._by_host if not self._has_slot(host)]:
            waiting = (name for name, hosts in self._waiting.items() if host in hosts)
            self._revoke_in([call for call in running if call.host == host], waiting)

    def _revoke_in(self, pool: list[_Call], waiting: Iterable[str]) -> None:
        """Revoke the newest excess call that ran long enough, or wait until one has."""
        # One at a time: its end gives a slot to a waiting call, and brings us here again.
        if any(call.is_revoked for call in pool):
            return
        now, excess = asyncio.get_running_loop().time(), _excess_calls(pool, waiting)
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
        """Remove a call from its line; the rest of its namespace goes behind the others."""
        hosts = self._waiting.pop(call.namespace)
        line = hosts.pop(call.host)
        del line[call.number]
        if line:
            hosts[call.host] = line
        if hosts:
            self._waiting[call.namespace] = hosts


def _excess_calls(pool: list[_Call], waiting: Iterable[str]) -> list[_Call]:
    """The calls of the richest namespace, if it has two more than one that waits."""
    count = Counter(call.namespace for call in pool)
    richest, most = count.most_common(1)[0]
    if most < 2 or not any(count[namespace] + 2 <= most for namespace in waiting):
        return []
    return [call for call in pool if call.namespace == richest and call.host]
