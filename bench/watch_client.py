"""One watch client in a process of its own; the parent is `bench.watch`.

parent sends    child does                                        child sends
--------------  ------------------------------------------------  ----------
a number N      starts to watch                                   ready
(modifies one)  sees the first event and starts its clock         open
(modifies N)    sees N events and stops its clock                 {"cpu": ...}
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path

Watch = Callable[[Path, str], AsyncGenerator[None, None]]
"""Yields once when it watches, then once per event."""


async def _windlass(kubeconfig: Path, namespace: str) -> AsyncGenerator[None, None]:
    from bench.samples import POD_TEMPLATES
    from windlass.kube.connection import Connection
    from windlass.kube.reflector import Observed, Scope, SnapshotComplete, reflect

    async with (
        Connection.open(kubeconfig=kubeconfig) as connection,
        aclosing(reflect(connection, Scope(POD_TEMPLATES, namespace))) as items,
    ):
        async for item in items:
            if isinstance(item, Observed):
                if not item.initial:
                    yield
            elif isinstance(item, SnapshotComplete):
                yield


async def _windlass_cleaned(kubeconfig: Path, namespace: str) -> AsyncGenerator[None, None]:
    from bench.samples import POD_TEMPLATES
    from windlass.kube.connection import Connection
    from windlass.kube.reflector import Observed, Scope, SnapshotComplete, reflect
    from windlass.reverser.content.clean_object import ObjectReader

    lens = ObjectReader(b"k" * 32, frozenset())
    async with (
        Connection.open(kubeconfig=kubeconfig) as connection,
        aclosing(reflect(connection, Scope(POD_TEMPLATES, namespace))) as items,
    ):
        async for item in items:
            if isinstance(item, Observed):
                if not item.initial:
                    lens.read(POD_TEMPLATES, "PodTemplate", item.object)
                    yield
            elif isinstance(item, SnapshotComplete):
                yield


async def _lightkube(kubeconfig: Path, namespace: str) -> AsyncGenerator[None, None]:
    from lightkube import AsyncClient, KubeConfig
    from lightkube.resources.core_v1 import PodTemplate

    client = AsyncClient(config=KubeConfig.from_file(str(kubeconfig)), namespace=namespace)
    try:
        listed = client.list(PodTemplate)
        async for _ in listed:
            pass
        yield
        async for _ in client.watch(PodTemplate, resource_version=listed.resourceVersion):
            yield
    finally:
        await client.close()


async def _kubernetes_asyncio(kubeconfig: Path, namespace: str) -> AsyncGenerator[None, None]:
    from kubernetes_asyncio import client, config, watch

    await config.load_kube_config(config_file=str(kubeconfig))
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        listed = await core.list_namespaced_pod_template(namespace)
        yield
        version = listed.metadata.resource_version
        async with watch.Watch() as stream:
            async for _ in stream.stream(
                core.list_namespaced_pod_template, namespace, resource_version=version
            ):
                yield


WATCHES: dict[str, Watch] = {
    "windlass": _windlass,
    "windlass-cleaned": _windlass_cleaned,
    "lightkube": _lightkube,
    "kubernetes_asyncio": _kubernetes_asyncio,
}


async def _round(watch: Watch, kubeconfig: Path, namespace: str, events: int) -> None:
    seen, began = -2, 0.0
    async with aclosing(watch(kubeconfig, namespace)) as items:
        async for _ in items:
            seen += 1
            if seen == events:
                break
            if seen == -1:
                _report("ready")
            elif seen == 0:
                began = time.process_time()
                _report("open")
        cpu = time.process_time() - began
    _report(json.dumps({"cpu": cpu, "events": events}))


def _report(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    """Watch as often as the parent requests; its end is ours."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to handle
    name, kubeconfig, namespace = sys.argv[1:]
    for line in sys.stdin:
        asyncio.run(_round(WATCHES[name], Path(kubeconfig), namespace, int(line)))


if __name__ == "__main__":
    main()
