"""The fault proxy in a thread of its own, so that a whole operator can run through it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.kube.watch_proxy import Matcher, ProxyResponse, WatchProxy
from tests.support.processes.server_loop import server_loop


@dataclass(frozen=True)
class RunningProxy:
    """A running proxy, and a kubeconfig that goes through it."""

    proxy: WatchProxy
    kubeconfig: Path
    loop: asyncio.AbstractEventLoop

    def close_streams(self, when: Matcher) -> None:
        """Cut every connection that is open now for such a request."""
        self.loop.call_soon_threadsafe(self.proxy.close_streams, when)


@dataclass(frozen=True, slots=True)
class EmptyList(ProxyResponse):
    """A complete list without items, whatever exists."""

    status: int = 200

    def body(self) -> bytes:
        return json.dumps(
            {
                "kind": "ConfigMapList",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": "1"},
                "items": [],
            }
        ).encode()


@contextlib.contextmanager
def running_proxy(kubeconfig: Path, directory: Path) -> Iterator[RunningProxy]:
    """A proxy that acts as the user of `kubeconfig`."""

    async def start() -> WatchProxy:
        return await WatchProxy(kubeconfig).__aenter__()

    with server_loop() as running:
        proxy = running.run(start())
        try:
            path = proxy.write_kubeconfig(directory / "proxy.kubeconfig")
            yield RunningProxy(proxy, path, running.loop)
        finally:
            running.run(proxy.__aexit__(None, None, None))
