"""One watch request, from its answer to its end.

`open_watch` returns as soon as the server has said 200; its `batches` end when the
server closes cleanly between two lines. Every other end is an error: ApiError (a
status, a broken transport, Idle when no byte came for too long) or EnvelopeBroken. A
half line at the end is never handed out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from windlass.base import failpoint
from windlass.kube import envelope, paths
from windlass.kube.connection import Connection
from windlass.kube.envelope import EnvelopeBroken, WatchLine
from windlass.kube.lines import LineSplitter
from windlass.objects.names import GVR

__all__ = ["EnvelopeBroken", "WatchLine", "WatchStream", "open_watch"]


class WatchStream:
    """The events of one open watch."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def batches(self) -> AsyncGenerator[list[WatchLine], None]:
        """Events in order, as many at a time as had arrived.

        A broken line comes to light after the events before it.
        """
        splitter = LineSplitter()
        open_line = envelope.open_line
        async for chunk in self._body:
            events: list[WatchLine] = []
            try:
                events.extend(map(open_line, splitter.feed(chunk)))
            except EnvelopeBroken:
                yield events
                raise
            if events:
                yield events
        if splitter.has_unfinished:
            raise EnvelopeBroken("the stream ended in the middle of a line")


@asynccontextmanager
async def open_watch(
    connection: Connection,
    gvr: GVR,
    namespace: str = "",
    *,
    resource_version: str | None,
    initial_events: bool = False,
    timeout_seconds: int,
    idle_seconds: float,
    label_selector: str = "",
    field_selector: str = "",
) -> AsyncIterator[WatchStream]:
    """A watch from `resource_version` on, or from a consistent state with its initial events."""
    params = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(timeout_seconds),
    }
    if label_selector:
        params["labelSelector"] = label_selector
    if field_selector:
        params["fieldSelector"] = field_selector
    if initial_events:
        params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    elif resource_version:
        params["resourceVersion"] = resource_version
    failpoint.reach("kube.watch.before")
    path = paths.collection(gvr, namespace)
    async with connection.stream(path, params=params, idle_seconds=idle_seconds) as body:
        yield WatchStream(body)
