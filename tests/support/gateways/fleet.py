"""A namespace with stand-in gateways: pods without a node, agents that only report.

The API server does not know that no kubelet runs the pods: the test writes their status.
Agents have real rights: they act as the service account of their pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from tests.support.git.http_server import RunningGitServer, git_settings
from tests.support.processes.polling import DEADLINE_SECONDS, eventually
from windlass.api.kinds.registry import IGNITION_SYNCS
from windlass.base.clock import SystemClock
from windlass.gateways.controller.controller import GatewaysController, GatewaysSettings
from windlass.gateways.status.pod_discovery import AGENT_CONTAINER
from windlass.gateways.wire import agent_report, metadata, routing
from windlass.gateways.wire.agent_report import AgentReport
from windlass.gateways.wire.metadata import AgentMetadata
from windlass.git.settings import GitSettings
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import Forbidden, NotFound
from windlass.objects.names import GVR, Key
from windlass.sources.git_service import GitService
from windlass.telemetry.gateways import GatewayMetrics

PODS = GVR("", "v1", "pods")
CONFIG_MAPS = GVR("", "v1", "configmaps")
SECRETS = GVR("", "v1", "secrets")
EVENTS = GVR("events.k8s.io", "v1", "events")
ROLES = GVR("rbac.authorization.k8s.io", "v1", "roles")
ROLE_BINDINGS = GVR("rbac.authorization.k8s.io", "v1", "rolebindings")
ACCOUNTS = GVR("", "v1", "serviceaccounts")

MANAGER = "test"
API_KEY = "0123456789abcdef"
PREFIX = "ignition-sync.io/"


class AdvancingClock(SystemClock):
    """The machine's clock, which a test can advance instead of waiting."""

    def __init__(self) -> None:
        self.skipped = 0.0
        self._held_at: float | None = None

    def monotonic(self) -> float:
        return (super().monotonic() if self._held_at is None else self._held_at) + self.skipped

    def hold(self) -> None:
        """Stop it: from now on only `skipped` advances it."""
        self._held_at = super().monotonic()

    def resume(self) -> None:
        self._held_at = None


async def settle() -> None:
    """Let the loop close abandoned connections, such as those that were being opened."""
    for _ in range(20):
        await asyncio.sleep(0)


@dataclass
class RunningController:
    """A controller that runs inside the test."""

    controller: GatewaysController
    clock: AdvancingClock
    registry: CollectorRegistry

    def wake(self, fleet: Fleet, name: str = "site") -> None:
        """Queue a reconcile, as a timer does."""
        self.controller._queue.add(Key(fleet.namespace, name))

    async def idle(self) -> bool:
        """Whether no reconcile is running or queued, and none waits for a remote."""
        queue, calls = self.controller._queue, self.controller._calls
        return not queue.depth and not queue.working and not calls._calls

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"windlass_gateways_{name}", labels)


@contextlib.asynccontextmanager
async def running_controller(
    connection: Connection, directory: Path, *, git: GitSettings | None = None, **changes: Any
) -> AsyncIterator[RunningController]:
    """A controller that runs while the test does."""
    settings = GatewaysSettings(
        work_directory=directory,
        **{"status_interval_seconds": 0.2, **changes},
    )
    clock, registry = AdvancingClock(), CollectorRegistry()
    service = GitService(git or git_settings(directory), clock=clock)
    controller = GatewaysController(
        connection,
        settings,
        service,
        clock=clock,
        metrics=GatewayMetrics(registry),
    )
    task = asyncio.create_task(controller.run())
    try:
        yield RunningController(controller, clock, registry)
        assert not task.done(), "the controller ended by itself"
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await service.close()


@dataclass
class Fleet:
    """One namespace, its repository, its IgnitionSyncs and its pods."""

    admin: Api
    connection: Connection
    served: RunningGitServer
    namespace: str
    repository: Path = field(init=False)
    _numbers: Any = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.repository = self.served.create(self.namespace, {"services/a/projects/x.json": "{}"})

    # ---- objects of users

    def sync(self, name: str = "site", **spec: Any) -> dict[str, Any]:
        base: dict[str, Any] = {
            "git": {"repo": self.served.server.url(self.namespace), "ref": "main"},
            "gateway": {"apiKeySecretRef": {"name": "ignition-api"}},
            "polling": {"interval": "60s"},
        }
        return {
            "apiVersion": IGNITION_SYNCS.api_version,
            "kind": "IgnitionSync",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {**base, **spec},
        }

    async def apply(self, *syncs: dict[str, Any]) -> None:
        for sync in syncs:
            await self.admin.apply(IGNITION_SYNCS, sync, field_manager=MANAGER)

    async def secret(self, name: str = "ignition-api", **data: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": self.namespace},
            "stringData": data or {"apiKey": f"windlass:{API_KEY}"},
        }
        await self.admin.apply(SECRETS, body, field_manager=MANAGER)

    async def request(self, name: str = "site") -> None:
        """Request a poll of the remote now."""
        value = f"request-{next(self._numbers)}"
        patch = {"metadata": {"annotations": {"windlass.dev/requestedAt": value}}}
        await self.admin.merge_patch(
            IGNITION_SYNCS, name, patch, self.namespace, field_manager=MANAGER
        )

    async def pod(
        self,
        name: str,
        *,
        account: str = "default",
        sidecar: bool = True,
        labels: dict[str, str] | None = None,
        **annotations: str,
    ) -> FleetPod:
        """A gateway's pod that is running as far as the API server knows."""
        all_annotations = {"inject": "true", "service_path": "services/a", **annotations}
        prefixed = {
            PREFIX + key.replace("_", "-"): text for key, text in all_annotations.items() if text
        }
        container = {"name": "gateway", "image": "example.invalid/gateway"}
        agent = {
            "name": AGENT_CONTAINER,
            "image": "example.invalid/agent",
            "restartPolicy": "Always",
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "annotations": prefixed,
                "labels": labels or {},
            },
            "spec": {
                "serviceAccountName": account,
                "containers": [container],
                **({"initContainers": [agent]} if sidecar else {}),
            },
        }
        created = await self.admin.create(PODS, body, field_manager=MANAGER)
        pod = FleetPod(self, name, created["metadata"]["uid"], prefixed, labels or {}, account)
        await pod.set_status("Running", {"running": {}} if sidecar else None)
        return pod

    async def account(self, name: str) -> None:
        """A service account; the default one is created by the cluster, a little later."""
        if name != "default":
            metadata = {"name": name, "namespace": self.namespace}
            body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
            await self.admin.apply(ACCOUNTS, body, field_manager=MANAGER)
        await self.wait_for(ACCOUNTS, name)

    # ---- observed state

    async def find(self, gvr: GVR, name: str) -> dict[str, Any] | None:
        try:
            return await self.admin.get(gvr, name, self.namespace)
        except NotFound:
            return None

    async def wait_for(
        self, gvr: GVR, name: str, *, seconds: float = DEADLINE_SECONDS
    ) -> dict[str, Any]:
        obj = await eventually(
            lambda: self.find(gvr, name), f"{gvr.resource} {name}", seconds=seconds
        )
        assert obj is not None
        return obj

    async def status(self, name: str = "site") -> dict[str, Any]:
        sync = await self.find(IGNITION_SYNCS, name)
        status: dict[str, Any] = (sync or {}).get("status") or {}
        return status

    async def condition(self, kind: str = "Ready", name: str = "site") -> dict[str, Any]:
        rows = (await self.status(name)).get("conditions", [])
        return next((row for row in rows if row["type"] == kind), {})

    async def until(
        self,
        reason: str,
        kind: str = "Ready",
        *,
        name: str = "site",
        message: str = "",
        seconds: float = DEADLINE_SECONDS,
    ) -> dict[str, Any]:
        """The condition, once it has that reason and its message contains that text."""

        async def matching_condition() -> dict[str, Any]:
            row = await self.condition(kind, name)
            matches = row.get("reason") == reason and message in row.get("message", "")
            return row if matches else {}

        try:
            return await eventually(
                matching_condition, f"{name} {kind}={reason} {message}", seconds=seconds
            )
        except AssertionError as error:
            raise AssertionError(f"{error}; is {await self.condition(kind, name)}") from None

    async def published(self, name: str = "site") -> dict[str, str]:
        """The keys of the metadata ConfigMap."""
        config_map = await self.find(CONFIG_MAPS, f"ignition-sync-metadata-{name}")
        data: dict[str, str] = (config_map or {}).get("data") or {}
        return data

    async def until_published(self, key: str, value: str, name: str = "site") -> dict[str, str]:
        async def matching_data() -> dict[str, str]:
            data = await self.published(name)
            return data if data.get(key) == value else {}

        return await eventually(matching_data, f"{key}={value} in the metadata of {name}")

    async def events(self, reason: str) -> list[dict[str, Any]]:
        events = await self.admin.list(EVENTS, self.namespace)
        return [event for event in events if event.get("reason") == reason]

    def listings(self) -> int:
        """How many requests for its refs the remote received."""
        paths = [request.path for request in self.served.server.requests]
        return sum(self.namespace in path and path.endswith("/info/refs") for path in paths)


@dataclass
class FleetPod:
    """One stand-in gateway and its agent."""

    fleet: Fleet
    name: str
    uid: str
    annotations: dict[str, str]
    labels: dict[str, str]
    account: str

    async def set_status(self, phase: str, agent: dict[str, Any] | None, **more: Any) -> None:
        """Write the pod's status as a kubelet does."""
        container_status = {
            "name": AGENT_CONTAINER,
            "image": "x",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": agent,
            **more,
        }
        status: dict[str, Any] = {"phase": phase}
        if agent is not None:
            status["initContainerStatuses"] = [container_status]
        await self.fleet.admin.merge_patch(
            PODS,
            self.name,
            {"status": status},
            self.fleet.namespace,
            field_manager="kubelet",
            subresource="status",
        )

    async def delete(self) -> None:
        await self.fleet.admin.delete(PODS, self.name, self.fleet.namespace)

    async def metadata(self, sync: str = "site") -> AgentMetadata:
        """What the agent reads, with its own rights, once its status object is published."""

        async def readable_metadata() -> AgentMetadata | None:
            try:
                name = f"ignition-sync-metadata-{sync}"
                published = await self.agent.get(CONFIG_MAPS, name, self.fleet.namespace)
            except (Forbidden, NotFound):
                return None
            decoded = metadata.decode(published["data"])
            # A first listing that takes long is published without its commit at first.
            is_complete = decoded.source is not None and self.name in decoded.status_objects
            return decoded if is_complete else None

        published = await eventually(readable_metadata, f"metadata for {self.name}")
        assert published is not None
        return published

    async def report(self, sync: str = "site", **changes: Any) -> AgentReport:
        """Write the report of an agent that has synced what is published."""
        published = await self.metadata(sync)
        report = self.synced(published, **changes)
        await self.write(published, report)
        return report

    def synced(self, published: AgentMetadata, **changes: Any) -> AgentReport:
        """The report of an agent that has synced `published`."""
        commit = published.source.commit if published.source is not None else ""
        profile_hash = routing.hash_profile(published.routing_hash, self.annotations, self.labels)
        fields: dict[str, Any] = {
            "gateway": self.name,
            "pod_name": self.name,
            "pod_uid": self.uid,
            "agent_version": "0.1.0",
            "sync_status": "Synced",
            "reason": "Synced",
            "synced_commit": commit,
            "applied_commit": commit,
            "profile_hash": profile_hash,
            "routing_hash": published.routing_hash,
            "last_sync_time": datetime(2026, 1, 1, tzinfo=UTC),
        }
        return AgentReport(**{**fields, **changes})

    async def write(self, published: AgentMetadata, report: AgentReport) -> None:
        """Server-side apply of the agent's own key, with its own rights (SIG-2)."""
        await self.write_text(published, agent_report.encode(report))

    async def write_text(self, published: AgentMetadata, text: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": published.status_objects[self.name].name,
                "namespace": self.fleet.namespace,
            },
            "data": {self.name: text},
        }
        manager = f"ignition-sync-agent.{self.uid}"

        async def applied() -> bool:
            try:
                await self.agent.apply(CONFIG_MAPS, body, field_manager=manager)
            except Forbidden:
                return False
            return True

        await eventually(applied, f"the right of {self.name} to report")

    @property
    def agent(self) -> Api:
        user = f"system:serviceaccount:{self.fleet.namespace}:{self.account}"
        return Api(self.fleet.connection, acting_as=user)
