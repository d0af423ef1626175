"""A reflector of a scope through every fault on the way."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import pytest

from tests.support.kube.reflector_events import (
    CONFIGMAPS,
    QUICK,
    changes_to,
    collect_until,
    collect_until_changed,
    collect_until_synced,
    config_map,
    interruptions,
    live_names,
    snapshot_count,
)
from tests.support.kube.watch_proxy import (
    ConnectionDrop,
    ProxiedRequest,
    ProxyResponse,
    StreamFault,
    WatchProxy,
)
from windlass.kube import reflector_state
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.reflector import (
    Interrupted,
    ReflectorEvent,
    Scope,
    SnapshotAbandoned,
    SnapshotComplete,
    reflect,
)
from windlass.kube.reflector_state import ReflectorSettings

pytestmark = pytest.mark.cluster

MANAGER = "windlass-test"
EXPIRED = ProxyResponse(410, "too old resource version: 1 (2)", "Expired")


def _is_watch(seen: ProxiedRequest) -> bool:
    return seen.is_watch


def _is_resume(seen: ProxiedRequest) -> bool:
    return seen.is_resume


def _is_watchlist(seen: ProxiedRequest) -> bool:
    return seen.is_watchlist


@pytest.fixture
async def items(
    through: Connection, namespace: str
) -> AsyncIterator[AsyncGenerator[ReflectorEvent, None]]:
    """A reflector of the test's namespace, through the proxy."""
    async with aclosing(_reflector_events(through, namespace)) as following:
        yield following


def _reflector_events(
    connection: Connection, namespace: str, settings: ReflectorSettings = QUICK
) -> AsyncGenerator[ReflectorEvent, None]:
    return reflect(connection, Scope(CONFIGMAPS, namespace), settings, rng=random.Random(1))


async def _create(api: Api, namespace: str, *names: str) -> None:
    for name in names:
        await api.create(CONFIGMAPS, config_map(name, namespace), field_manager=MANAGER)


async def _until_interrupted(
    items: AsyncIterator[ReflectorEvent], reason: str
) -> list[ReflectorEvent]:
    return await collect_until(
        items, lambda item: isinstance(item, Interrupted) and item.reason == reason
    )


async def test_cut(
    proxy: WatchProxy, items: AsyncGenerator[ReflectorEvent, None], api: Api, namespace: str
) -> None:
    """A stream cut in the middle of a line resumes; the cut event arrives complete."""
    proxy.fault(StreamFault(after_lines=2, then="cut"), when=_is_resume)
    proxy.fault(StreamFault(after_snapshot=True), when=_is_watchlist)
    await collect_until_synced(items)
    events = await _until_interrupted(items, "closed")
    await _create(api, namespace, "a", "b", "c")
    events += await collect_until_changed(items, "c")
    assert "error" in {item.reason for item in interruptions(events)}
    assert snapshot_count(events) == 0
    assert len(changes_to(events, "a", "b", "c")) == 3


@pytest.mark.scenario("A93")
async def test_freeze(proxy: WatchProxy, through: Connection, api: Api, namespace: str) -> None:
    """A dead socket is detected by its silence, and the gap is closed from the last version."""
    # Longer than QUICK_SECONDS: a silent stream is not one that closed at once.
    settings = dataclasses.replace(QUICK, idle_seconds=1.1)
    async with aclosing(_reflector_events(through, namespace, settings)) as items:
        await collect_until_synced(items)
        # The stream that serves the snapshot goes on alive; freeze the ones after it.
        proxy.fault(StreamFault(after_lines=0, then="freeze"), when=_is_resume, times=2)
        events = await _until_interrupted(items, "idle")
        await _create(api, namespace, "unseen")
        events += await collect_until_changed(items, "unseen")
    assert snapshot_count(events) == 0
    versions = [seen.query["resourceVersion"] for seen in proxy.seen if seen.is_resume]
    assert versions
    assert all(versions)


async def test_frozen_snapshot(proxy: WatchProxy, through: Connection, namespace: str) -> None:
    """A snapshot that stops is abandoned, and a later one completes."""
    settings = dataclasses.replace(QUICK, idle_seconds=0.3)
    # Until one is abandoned: a request whose response has not even begun by then starts none.
    proxy.fault(StreamFault(after_lines=0, then="freeze"), when=_is_watchlist, times=None)
    async with aclosing(_reflector_events(through, namespace, settings)) as items:
        events = await collect_until(items, lambda item: isinstance(item, SnapshotAbandoned))
        after = await collect_until(items, lambda _: True)
        assert [item.reason for item in interruptions(after)] == ["idle"]
        proxy.heal()
        events += after + await collect_until_synced(items)
    abandoned = sum(isinstance(item, SnapshotAbandoned) for item in events)
    # On a busy machine the server itself may be silent for so long, and be asked once more.
    assert snapshot_count(events) == abandoned + 1


async def test_server_that_ignores_watchlist(
    proxy: WatchProxy, through: Connection, api: Api, namespace: str
) -> None:
    """A server that never ends the initial events is listed after two tries."""
    await _create(api, namespace, "a")
    proxy.fault(
        StreamFault(change=lambda line: None if b"BOOKMARK" in line else line),
        when=_is_watchlist,
        times=None,
    )
    settings = dataclasses.replace(QUICK, idle_seconds=0.3)
    async with aclosing(_reflector_events(through, namespace, settings)) as items:
        events = await collect_until_synced(items)
    assert isinstance(events[-1], SnapshotComplete)
    assert events[-1].via == "list"
    assert live_names(events) == {"a"}
    assert CONFIGMAPS in through.without_watchlist


async def test_corrupt_line(
    proxy: WatchProxy, items: AsyncGenerator[ReflectorEvent, None], api: Api, namespace: str
) -> None:
    """A line that is not an event is never applied; the event arrives after a resume."""
    proxy.fault(
        StreamFault(change=lambda line: line.replace(b'"metadata"', b'"metadata')), when=_is_resume
    )
    proxy.fault(StreamFault(after_snapshot=True), when=_is_watchlist)
    await collect_until_synced(items)
    events = await _until_interrupted(items, "closed")
    await _create(api, namespace, "a")
    events += await collect_until_changed(items, "a")
    assert [item.reason for item in interruptions(events)] == ["closed", "error"]
    assert snapshot_count(events) == 0


async def test_poison_object(
    proxy: WatchProxy, items: AsyncGenerator[ReflectorEvent, None], api: Api, namespace: str
) -> None:
    """An object that cannot be parsed is passed on as bytes, and the stream continues."""
    proxy.fault(
        StreamFault(change=lambda line: line.replace(b"poison-me", b"\\ud800")), when=_is_watchlist
    )
    await collect_until_synced(items)
    await api.create(CONFIGMAPS, config_map("p", namespace, k="poison-me"), field_manager=MANAGER)
    await _create(api, namespace, "after")
    events = await collect_until_changed(items, "after")
    [poison] = changes_to(events, "p")
    assert b'"k":"\\ud800"' in poison.object
    assert not interruptions(events)


@pytest.mark.scenario("A93")
async def test_closed_every_100_ms(
    proxy: WatchProxy, items: AsyncGenerator[ReflectorEvent, None], api: Api, namespace: str
) -> None:
    """A server that keeps closing is requested less and less often, and nothing is lost."""
    proxy.fault(StreamFault(after_seconds=0.1), when=_is_resume, times=None)
    proxy.fault(StreamFault(after_snapshot=True), when=_is_watchlist, times=None)
    writing = asyncio.ensure_future(
        _create(api, namespace, *(f"n{number}" for number in range(30)))
    )
    events = await collect_until_synced(items)
    # All of them may be in the first snapshot already.
    while len(live_names(events)) < 30 or not interruptions(events):
        events += await collect_until(items, lambda item: True)
    await writing
    waits = [item.retry_seconds for item in interruptions(events)]
    assert all(wait > 0 for wait in waits)


@pytest.mark.scenario("F8")
async def test_closed_at_once_three_times(
    proxy: WatchProxy,
    items: AsyncGenerator[ReflectorEvent, None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three streams that close at once reset the version: a snapshot follows."""
    # Proxy and reflector share a process: one that is held up did not close later.
    monkeypatch.setattr(reflector_state, "QUICK_SECONDS", 30.0)
    proxy.fault(
        StreamFault(after_lines=0, then="close", after_seconds=0), when=_is_resume, times=None
    )
    proxy.fault(StreamFault(after_snapshot=True), when=_is_watchlist)
    await collect_until_synced(items)
    events = await collect_until_synced(items)
    assert [item.reason for item in interruptions(events)] == ["closed"] * 4
    assert snapshot_count(events) == 1


@pytest.mark.scenario("F7")
@pytest.mark.parametrize("form", ["status", "event"])
async def test_an_expired_version_leads_to_a_new_snapshot(
    proxy: WatchProxy,
    items: AsyncGenerator[ReflectorEvent, None],
    api: Api,
    namespace: str,
    form: str,
) -> None:
    """410 as a status or as an event: the snapshot lacks objects deleted meanwhile."""
    await _create(api, namespace, "stays", "goes")
    fault = (
        EXPIRED
        if form == "status"
        else StreamFault(after_lines=0, then="error", answer=EXPIRED, after_seconds=0)
    )
    proxy.fault(fault, when=_is_resume)
    proxy.fault(StreamFault(after_snapshot=True), when=_is_watchlist)
    assert live_names(await collect_until_synced(items)) == {"stays", "goes"}
    await _until_interrupted(items, "closed")
    await api.delete(CONFIGMAPS, "goes", namespace)
    events = await collect_until_synced(items)
    assert [item.reason for item in interruptions(events)] == ["expired"]
    assert live_names(events) == {"stays"}


@pytest.mark.scenario("F7")
async def test_a_version_that_expires_between_pages(
    proxy: WatchProxy, through: Connection, api: Api, namespace: str
) -> None:
    """410 between two pages: the listed part is dropped, the list begins again."""
    await _create(api, namespace, *(f"c{number}" for number in range(5)))
    proxy.hide_watchlist()
    proxy.fault(EXPIRED, when=lambda seen: seen.is_next_page)
    settings = dataclasses.replace(QUICK, page_size=2)
    async with aclosing(_reflector_events(through, namespace, settings)) as items:
        events = await collect_until_synced(items)
    assert [item.reason for item in interruptions(events)] == ["expired"]
    assert sum(isinstance(item, SnapshotAbandoned) for item in events) == 1
    assert len(live_names(events)) == 5
    assert isinstance(events[-1], SnapshotComplete)
    assert events[-1].objects >= 5


async def test_version_from_the_future(
    proxy: WatchProxy, items: AsyncGenerator[ReflectorEvent, None]
) -> None:
    """A version that the server has not reached yet is dropped like an expired one."""
    future = ProxyResponse(504, "Too large resource version: 99, current: 7", "Timeout")
    proxy.fault(future, when=_is_resume)
    proxy.fault(StreamFault(after_snapshot=True), when=_is_watchlist)
    await collect_until_synced(items)
    events = await collect_until_synced(items)
    assert "expired" in {item.reason for item in interruptions(events)}


async def test_server_without_watchlist(
    proxy: WatchProxy, through: Connection, api: Api, namespace: str
) -> None:
    """A refused WatchList is replaced by a list and a watch, for all scopes of the type."""
    await _create(api, namespace, "a")
    proxy.hide_watchlist()
    async with aclosing(_reflector_events(through, namespace)) as items:
        events = await collect_until_synced(items)
        assert not interruptions(events)
        assert isinstance(events[-1], SnapshotComplete)
        assert events[-1].via == "list"
        await _create(api, namespace, "b")
        await collect_until_changed(items, "b")
    async with aclosing(_reflector_events(through, namespace)) as second:
        assert live_names(await collect_until_synced(second)) == {"a", "b"}
    assert sum(seen.is_watchlist for seen in proxy.seen) == 1
    assert not any("resourceVersion" in seen.query for seen in proxy.seen if seen.is_list)


@pytest.mark.parametrize("status", [401, 403])
async def test_forbidden(
    proxy: WatchProxy, through: Connection, namespace: str, status: int
) -> None:
    """Without permission there is no snapshot at all, only a slow retry."""
    proxy.fault(ProxyResponse(status, "no", "Forbidden"), when=_is_watch, times=2)
    settings = dataclasses.replace(QUICK, forbidden_initial=0.2, forbidden_ceiling=0.4)
    async with aclosing(_reflector_events(through, namespace, settings)) as items:
        events = await collect_until_synced(items)
    refused = interruptions(events)
    assert [item.reason for item in refused] == ["forbidden"] * 2
    assert all(item.status == status and item.retry_seconds >= 0.1 for item in refused)
    assert snapshot_count(events) == 1


async def test_throttled(proxy: WatchProxy, items: AsyncGenerator[ReflectorEvent, None]) -> None:
    """Retry-After is honored even if our own delay would be shorter."""
    slow = ProxyResponse(429, "slow down", "TooManyRequests", {"Retry-After": "1"})
    proxy.fault(slow, when=_is_watch)
    loop = asyncio.get_running_loop()
    started = loop.time()
    events = await collect_until_synced(items)
    [waited] = interruptions(events)
    assert waited.retry_seconds == 1
    assert loop.time() - started >= 1


@pytest.mark.parametrize("action", [ProxyResponse(500), ProxyResponse(503), ConnectionDrop()])
async def test_a_failing_server(
    proxy: WatchProxy,
    items: AsyncGenerator[ReflectorEvent, None],
    api: Api,
    namespace: str,
    action: ProxyResponse | ConnectionDrop,
) -> None:
    """While the server fails nothing is concluded; then the gap is closed by a resume."""
    await collect_until_synced(items)
    proxy.fault(action, when=_is_resume, times=3)
    proxy.close_streams()
    events = await collect_until(
        items, lambda item: isinstance(item, Interrupted) and item.reason == "error"
    )
    await _create(api, namespace, "meanwhile")
    events += await collect_until_changed(items, "meanwhile")
    assert snapshot_count(events) == 0


@pytest.mark.parametrize(
    "action", [ProxyResponse(403, "no", "Forbidden"), ProxyResponse(500), ConnectionDrop(300)]
)
async def test_broken_page(
    proxy: WatchProxy,
    through: Connection,
    api: Api,
    namespace: str,
    action: ProxyResponse | ConnectionDrop,
) -> None:
    """A list that breaks on a later page is abandoned, whatever the cause."""
    await _create(api, namespace, *(f"c{number}" for number in range(4)))
    proxy.hide_watchlist()
    proxy.fault(action, when=lambda seen: seen.is_next_page)
    settings = dataclasses.replace(QUICK, page_size=2)
    async with aclosing(_reflector_events(through, namespace, settings)) as items:
        events = await collect_until(
            items, lambda item: isinstance(item, (SnapshotAbandoned, SnapshotComplete))
        )
        assert isinstance(events[-1], SnapshotAbandoned)
        assert len(live_names(await collect_until_synced(items))) == 4


async def test_type_that_is_not_served(through: Connection, namespace: str) -> None:
    """A missing type is a 404, and never an empty snapshot."""
    missing = dataclasses.replace(CONFIGMAPS, group="nothing.example.org")
    async with aclosing(reflect(through, Scope(missing, namespace), QUICK)) as items:
        [item] = await collect_until(items, lambda item: True)
    assert isinstance(item, Interrupted)
    assert (item.reason, item.status) == ("error", 404)


async def test_dropped_events_come_with_the_next_snapshot(
    proxy: WatchProxy, items: AsyncGenerator[ReflectorEvent, None], api: Api, namespace: str
) -> None:
    """Events that the proxy dropped are in the next snapshot."""
    proxy.fault(EXPIRED, when=_is_resume)
    proxy.fault(
        StreamFault(change=lambda line: None if b'"name":"lost"' in line else line),
        when=_is_watchlist,
    )
    await collect_until_synced(items)
    await _create(api, namespace, "lost", "seen")
    assert live_names(await collect_until_changed(items, "seen")) == {"seen"}
    proxy.close_streams()
    assert live_names(await collect_until_synced(items)) == {"lost", "seen"}
