"""Role of a process: components that start in order and stop in reverse order.

    role ── probes, metrics      served from the first moment to the last
      └── component 1 … n        entering starts one, leaving stops it

`windlass controller` and `windlass agent` are roles; `controller` and `agent` in this room list
their components. A later component may rely on the earlier ones, so an earlier one is stopped
only when all later ones have ended.

| Event | Then |
|---|---|
| SIGTERM, SIGINT | `/readyz` turns 503 at once; all components are stopped, the last one first |
| a signal before all have started | the start is interrupted; those that have started are stopped |
| a component's task ends | as after a signal; if it failed, its error is raised at the end |

The agent runs on this module and has to stay small: nothing here may import `runtime` or `api`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import structlog
from prometheus_client import CollectorRegistry
from structlog.contextvars import bound_contextvars

from windlass.web import endpoints
from windlass.web.endpoints import Check
from windlass.web.server import Server

Component: TypeAlias = contextlib.AbstractAsyncContextManager[asyncio.Task[None] | None]
"""A part of a role; if the task that it yields ends, the process ends."""

_log: Any = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What every role serves, and where; an address is host and port, port 0 takes a free one."""

    probes: tuple[str, int]
    metrics: tuple[str, int]
    # Metrics of all components.
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    # Checks of `/readyz` and of `/startupz`; None: the role does not serve that probe.
    ready: Mapping[str, Check] | None = None
    startup: Mapping[str, Check] | None = None


class Role:
    """A process: its components in the order in which they start."""

    def __init__(self, name: str, served: Endpoints, components: Sequence[Component]) -> None:
        self.name = name
        self._served = served
        self._components = components
        # Set by a signal, or by the end of a component.
        self._stopping = asyncio.Event()
        # Interrupts components that are starting; None before and after that.
        self._start: asyncio.Timeout | None = None

    async def run(self) -> None:
        """Run until a signal or a component ends the process; raises the component's error."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._request_stop)
        with bound_contextvars(role=self.name):
            async with self._probes() as probes, self._metrics() as metrics:
                _log.info("listening", health=probes.port, metrics=metrics.port)
                await self._run_components()

    async def _run_components(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            tasks = await self._start_components(stack)
            await wait_for_first(self._stopping, *tasks)
            self._stopping.set()
            # Raised before the others are stopped: an error of a stop must not hide it.
            for task in tasks:
                if task.done():
                    task.result()

    async def _start_components(self, stack: contextlib.AsyncExitStack) -> list[asyncio.Task[None]]:
        """Start one after the other; returns the tasks of those that a signal left time for."""
        tasks: list[asyncio.Task[None]] = []
        try:
            # Without a deadline: only `_request_stop` sets one.
            async with asyncio.timeout(None) as self._start:
                for component in self._components:
                    if self._stopping.is_set():
                        break
                    task = await stack.enter_async_context(component)
                    tasks += [task] if task is not None else []
        except TimeoutError:
            if not self._stopping.is_set():
                raise
        finally:
            self._start = None
        return tasks

    def _request_stop(self) -> None:
        self._stopping.set()
        if self._start is not None:
            self._start.reschedule(asyncio.get_running_loop().time())

    def _probes(self) -> Server:
        ready = self._served.ready
        if ready is not None:
            ready = {**ready, self.name: self._why_not_ready}
        app = endpoints.probes_app(live={}, ready=ready, startup=self._served.startup)
        return Server(app, *self._served.probes, flag="--health-probe-bind-address")

    def _why_not_ready(self) -> str | None:
        return "shutting down" if self._stopping.is_set() else None

    def _metrics(self) -> Server:
        app = endpoints.metrics_app(self._served.registry)
        return Server(app, *self._served.metrics, flag="--metrics-bind-address")


@contextlib.asynccontextmanager
async def run_in_background(
    name: str, work: Callable[[], Coroutine[Any, Any, Any]]
) -> AsyncIterator[asyncio.Task[Any]]:
    """A component that runs `work`; stopping it cancels `work` and waits until it has ended."""
    task = asyncio.create_task(work(), name=name)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def wait_for_first(event: asyncio.Event, *tasks: asyncio.Task[Any]) -> None:
    """Wait until `event` is set or one of the tasks has ended."""
    async with run_in_background("event", event.wait) as occurred:
        await asyncio.wait({occurred, *tasks}, return_when=asyncio.FIRST_COMPLETED)
