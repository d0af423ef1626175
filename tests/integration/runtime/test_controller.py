"""Informer, queue, controller and reporter together on a real API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.integration.runtime.conftest import PROBES, eventually, probe, until
from windlass.base.errors import Stalled, Waiting
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.reflector import Scope
from windlass.objects.names import GVR, Key
from windlass.objects.resources import EVENTS
from windlass.runtime.controller import Controller
from windlass.runtime.events import EventRecorder
from windlass.runtime.informer import Informer
from windlass.runtime.outcome import Outcome, Verdict
from windlass.runtime.queue import KeyedQueue
from windlass.runtime.reporter import Reporter
from windlass.runtime.status import ANNOTATIONS

pytestmark = pytest.mark.cluster

CONFIGMAPS = GVR("", "v1", "configmaps")
MANAGER = "windlass-test"


class Operator:
    """A minimal operator: `spec.say` decides how a reconcile ends."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self.api = Api(connection)
        self.passes: list[str] = []
        self.queue: KeyedQueue[Key] = KeyedQueue()
        self.informer = Informer(connection, Scope(PROBES, namespace), on_change=self.queue.add)
        reporter = Reporter(
            self.api,
            PROBES,
            self.informer.get,
            field_manager=MANAGER,
            recorder=EventRecorder(self.api, "windlass.dev/test"),
        )
        self.controller = Controller("probes", self.queue, self.reconcile, reporter=reporter)

    async def reconcile(self, key: Key) -> Outcome:
        self.passes.append(key.name)
        raw = self.informer.get(key)
        if raw is None:
            return Outcome.gone()
        say = json.loads(raw)["spec"].get("say", "fine")
        if say == "stuck":
            raise Stalled("AccessDenied", "ask for it")
        if say == "wait":
            raise Waiting("Validating", "soon", after=600)
        return Outcome(Verdict("True", "Ready", "fine"), fields={"said": say, "old": None})

    async def status(self, name: str, namespace: str) -> dict[str, Any]:
        objects_found: dict[str, Any] = (await self.api.get(PROBES, name, namespace)).get(
            "status"
        ) or {}
        return objects_found

    async def reason(self, name: str, namespace: str) -> str | None:
        rows = (await self.status(name, namespace)).get("conditions", [])
        return next((row["reason"] for row in rows if row["type"] == "Ready"), None)

    async def until_reason(self, name: str, namespace: str, reason: str) -> dict[str, Any]:
        async def is_reported() -> bool:
            return await self.reason(name, namespace) == reason

        await eventually(is_reported)
        return await self.status(name, namespace)


@asynccontextmanager
async def running(connection: Connection, namespace: str) -> AsyncIterator[Operator]:
    """The operator, while the block lasts."""
    operator = Operator(connection, namespace)
    tasks = [asyncio.create_task(it.run()) for it in (operator.informer, operator.controller)]
    try:
        await asyncio.wait_for(operator.informer.synced.wait(), 20)
        yield operator
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_an_object_is_reported_from_creation_to_deletion(
    api: Api, connection: Connection, probes: str
) -> None:
    """Ready, then Stalled, then Ready again, with one event per transition; then it is deleted."""
    async with running(connection, probes) as operator:
        await api.create(PROBES, probe("a", probes), field_manager=MANAGER)
        status = await operator.until_reason("a", probes, "Ready")
        assert status["observedGeneration"] == 1
        assert status["said"] == "fine"
        await api.merge_patch(PROBES, "a", {"spec": {"say": "stuck"}}, probes, field_manager="user")
        status = await operator.until_reason("a", probes, "AccessDenied")
        assert {row["type"] for row in status["conditions"]} == {"Ready", "Stalled"}
        assert status["observedGeneration"] == 2
        await api.merge_patch(PROBES, "a", {"spec": {"say": "ok"}}, probes, field_manager="user")
        status = await operator.until_reason("a", probes, "Ready")
        assert [row["type"] for row in status["conditions"]] == ["Ready"]
        await api.delete(PROBES, "a", probes)
        await until(lambda: operator.informer.get(Key(probes, "a")) is None)
        await until(lambda: operator.queue.depth + operator.queue.working == 0)
    events = [
        event for event in await api.list(EVENTS, probes) if event["regarding"]["name"] == "a"
    ]
    reported = sorted((event["type"], event["reason"]) for event in events)
    assert reported == [("Normal", "Ready"), ("Normal", "Ready"), ("Warning", "AccessDenied")]


@pytest.mark.scenario("A109")
async def test_no_op_reconciles_write_nothing_and_a_request_is_acknowledged_once(
    api: Api, connection: Connection, probes: str
) -> None:
    """A hundred more reconciles keep the resourceVersion; a request changes it once."""
    async with running(connection, probes) as operator:
        await api.create(PROBES, probe("a", probes), field_manager=MANAGER)
        await operator.until_reason("a", probes, "Ready")
        before = (await api.get(PROBES, "a", probes))["metadata"]["resourceVersion"]
        for _ in range(100):
            count = len(operator.passes)
            operator.queue.add(Key(probes, "a"))
            await until(lambda count=count: len(operator.passes) > count)  # type: ignore[misc]
        await until(lambda: operator.queue.working == 0)
        assert (await api.get(PROBES, "a", probes))["metadata"]["resourceVersion"] == before
        patch = {"metadata": {"annotations": {ANNOTATIONS[1]: "2026-01-01T00:00:00Z"}}}
        await api.merge_patch(PROBES, "a", patch, probes, field_manager="user")

        async def is_acknowledged() -> bool:
            return "lastHandledReconcileAt" in await operator.status("a", probes)

        await eventually(is_acknowledged)
        status = await operator.status("a", probes)
        assert status["lastHandledReconcileAt"] == "2026-01-01T00:00:00Z"


async def test_a_stale_write_is_refused_by_the_server_and_read_again(api: Api, probes: str) -> None:
    """The precondition works on the real server: the other writer's status field survives."""
    made = await api.create(PROBES, probe("a", probes), field_manager=MANAGER)
    cache = {Key(probes, "a"): json.dumps(made).encode()}
    await api.merge_patch(
        PROBES, "a", {"status": {"theirs": 1}}, probes, field_manager="x", subresource="status"
    )
    reporter = Reporter(api, PROBES, cache.get, field_manager=MANAGER)
    key = Key(probes, "a")
    await reporter.report(key, reporter.read_status(key), Outcome(Verdict("True", "Ready", "m")))
    status = (await api.get(PROBES, "a", probes))["status"]
    assert status["theirs"] == 1
    assert status["observedGeneration"] == 1


async def test_a_recreated_object_gets_no_report_of_the_old(api: Api, probes: str) -> None:
    """Deleted and created again with its name during the reconcile: the new one is unchanged."""
    made = await api.create(PROBES, probe("a", probes), field_manager=MANAGER)
    cache = {Key(probes, "a"): json.dumps(made).encode()}
    reporter = Reporter(api, PROBES, cache.get, field_manager=MANAGER)
    key = Key(probes, "a")
    seen = reporter.read_status(key)
    await api.delete(PROBES, "a", probes)
    await reporter.report(key, seen, Outcome(Verdict("True", "Ready", "m")))
    await api.create(PROBES, probe("a", probes), field_manager=MANAGER)
    await reporter.report(key, seen, Outcome(Verdict("True", "Ready", "m")))
    assert "status" not in await api.get(PROBES, "a", probes)


async def test_digests_follow_builtin_types(
    api: Api, connection: Connection, namespace: str
) -> None:
    """A digest cache reports every change and nothing else."""
    changes: list[str] = []
    informer = Informer(
        connection,
        Scope(CONFIGMAPS, namespace),
        on_change=lambda key: changes.append(key.name),
        keep="digest",
    )
    task = asyncio.create_task(informer.run())
    try:
        await asyncio.wait_for(informer.synced.wait(), 20)
        body = {"metadata": {"name": "a", "namespace": namespace}, "data": {"k": "1"}}
        meta = {"apiVersion": "v1", "kind": "ConfigMap"}
        await api.create(CONFIGMAPS, meta | body, field_manager=MANAGER)
        await until(lambda: changes.count("a") == 1)
        for value in ("2", "2"):
            patch = {"data": {"k": value}}
            await api.merge_patch(CONFIGMAPS, "a", patch, namespace, field_manager=MANAGER)
        await api.delete(CONFIGMAPS, "a", namespace)
        await until(lambda: informer.get(Key(namespace, "a")) is None)
        assert changes.count("a") == 3
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
