"""A reflector of a scope on a healthy API server."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.kube.reflector_events import (
    CONFIGMAPS,
    DEADLINE_SECONDS,
    QUICK,
    changes_to,
    collect_until_changed,
    collect_until_synced,
    config_map,
    live_names,
    summary,
)
from tests.support.kube.watch_proxy import WatchProxy
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.reflector import Observed, Scope, SnapshotComplete, SnapshotStarted, reflect
from windlass.kube.watch import WatchStream, bookmark_version, open_watch

if TYPE_CHECKING:
    from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

MANAGER = "windlass-test"


async def _create(api: Api, namespace: str, *names: str) -> None:
    for name in names:
        await api.create(CONFIGMAPS, config_map(name, namespace), field_manager=MANAGER)


async def test_snapshot_then_changes(connection: Connection, api: Api, namespace: str) -> None:
    """First existing objects, then create, update and delete in their order."""
    await _create(api, namespace, "a", "b")
    async with aclosing(reflect(connection, Scope(CONFIGMAPS, namespace), QUICK)) as items:
        events = await collect_until_synced(items)
        assert isinstance(events[0], SnapshotStarted), summary(events)
        assert live_names(events) == {"a", "b"}, summary(events)
        complete = events[-1]
        assert isinstance(complete, SnapshotComplete)
        assert complete.via == "watchlist"
        assert complete.objects == len(events) - 2, summary(events)
        await _create(api, namespace, "c")
        await api.merge_patch(
            CONFIGMAPS, "c", {"data": {"k": "1"}}, namespace, field_manager=MANAGER
        )
        await api.delete(CONFIGMAPS, "c", namespace)
        changes = await collect_until_changed(items, "c", "DELETED")
        mine = changes_to(changes, "c")
        assert [item.type for item in mine] == ["ADDED", "MODIFIED", "DELETED"], summary(changes)
        assert not any(item.initial for item in mine)
        assert json.loads(mine[1].object)["data"] == {"k": "1"}


async def test_listed_and_streamed_objects_look_alike(
    proxy: WatchProxy, through: Connection, connection: Connection, api: Api, namespace: str
) -> None:
    """The same object has the same content by WatchList and by list."""
    await _create(api, namespace, "a")
    proxy.hide_watchlist()
    seen = []
    for way in (connection, through):
        async with aclosing(reflect(way, Scope(CONFIGMAPS, namespace), QUICK)) as items:
            events = await collect_until_changed(items, "a")
            assert isinstance(events[-1], Observed)
            seen.append(json.loads(events[-1].object))
    assert seen[0] == seen[1]


async def test_large_object(connection: Connection, api: Api, namespace: str) -> None:
    """An object near the size limit of the server is one event like any other."""
    big = "x" * (1_000_000 + 40_000)
    await api.create(CONFIGMAPS, config_map("big", namespace, k=big), field_manager=MANAGER)
    async with aclosing(reflect(connection, Scope(CONFIGMAPS, namespace), QUICK)) as items:
        events = await collect_until_synced(items)
        assert "big" in live_names(events)
        await api.merge_patch(
            CONFIGMAPS,
            "big",
            {"metadata": {"annotations": {"more": "y" * 200_000}}},
            namespace,
            field_manager=MANAGER,
        )
        changed = (await collect_until_changed(items, "big", "MODIFIED"))[-1]
        assert isinstance(changed, Observed)
        assert len(changed.object) > 1_200_000
        assert json.loads(changed.object)["data"]["k"] == big


async def test_all_namespaces(connection: Connection, api: Api, namespace: str) -> None:
    """An empty namespace means every namespace."""
    await _create(api, namespace, "everywhere")
    async with aclosing(reflect(connection, Scope(CONFIGMAPS), QUICK)) as items:
        events = await collect_until_synced(items)
    observed_objects = [json.loads(item.object) for item in events if isinstance(item, Observed)]
    assert len({obj["metadata"]["namespace"] for obj in observed_objects}) > 1
    assert "everywhere" in {obj["metadata"]["name"] for obj in observed_objects}


async def test_closing_frees_the_connection(
    namespace: str, proxy: WatchProxy, through: Connection
) -> None:
    """A consumer that ends closes its stream."""
    async with aclosing(reflect(through, Scope(CONFIGMAPS, namespace), QUICK)) as items:
        await collect_until_synced(items)
        assert proxy.open_connections == 1
    async with asyncio.timeout(DEADLINE_SECONDS):
        await proxy.quiet()


async def test_many_streams_do_not_starve_requests(
    connection: Connection, api: Api, namespace: str
) -> None:
    """A hundred and fifty open watches do not block requests."""
    scopes = [reflect(connection, Scope(CONFIGMAPS, namespace), QUICK) for _ in range(150)]
    try:
        await asyncio.gather(*(collect_until_synced(items) for items in scopes))
        async with asyncio.timeout(DEADLINE_SECONDS):
            await _create(api, namespace, "late")
        seen = await asyncio.gather(*(collect_until_changed(items, "late") for items in scopes))
        assert len(seen) == len(scopes)
    finally:
        for items in scopes:
            await items.aclose()


async def test_stream_over_tls(
    cluster: LocalCluster, api: Api, namespace: str, tmp_path: Path
) -> None:
    """The same over TLS with a CA of its own, a large object included."""
    async with WatchProxy(cluster.admin_kubeconfig, tls=True) as proxy:
        kubeconfig = proxy.write_kubeconfig(tmp_path / "tls.kubeconfig")
        async with (
            Connection.open(kubeconfig=kubeconfig) as secure,
            aclosing(reflect(secure, Scope(CONFIGMAPS, namespace), QUICK)) as items,
        ):
            await collect_until_synced(items)
            await api.create(
                CONFIGMAPS, config_map("big", namespace, k="x" * 900_000), field_manager=MANAGER
            )
            await collect_until_changed(items, "big")


async def test_one_watch_with_its_bookmark(connection: Connection, namespace: str) -> None:
    """The plain watch returns bookmarks too, and ends at its timeout."""
    # Two watches: the bookmark of a slow server may come later than a short timeout.
    opened = open_watch(
        connection,
        CONFIGMAPS,
        namespace,
        resource_version=None,
        initial_events=True,
        timeout_seconds=240,
        idle_seconds=DEADLINE_SECONDS,
    )
    async with opened as stream:
        version = await _first_bookmark(stream)
    ending = open_watch(
        connection,
        CONFIGMAPS,
        namespace,
        resource_version=version,
        timeout_seconds=1,
        idle_seconds=DEADLINE_SECONDS,
    )
    async with asyncio.timeout(DEADLINE_SECONDS), ending as stream:
        assert "ERROR" not in {line.type async for batch in stream.batches() for line in batch}


async def _first_bookmark(stream: WatchStream) -> str:
    """The version of the first bookmark."""
    async with aclosing(stream.batches()) as batches:
        async for batch in batches:
            for line in batch:
                if line.type == "BOOKMARK":
                    return bookmark_version(line.object)[0]
    raise AssertionError("the watch ended without a bookmark")
