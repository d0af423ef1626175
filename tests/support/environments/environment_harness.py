"""Projects and Environments of one namespace, and a controller that reconciles them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from prometheus_client import CollectorRegistry

from tests.support.git.http_server import RunningGitServer, commit_files, git_settings
from tests.support.processes.polling import eventually
from windlass.api.install.installation import Installation
from windlass.api.kinds import environment, project
from windlass.base.clock import SystemClock
from windlass.environments.controller import EnvironmentsController, EnvironmentsSettings
from windlass.environments.owned_objects import OperatorAccount
from windlass.git.settings import GitSettings
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import NotFound
from windlass.objects.names import GVR, Key
from windlass.runtime.controller import Reconcile
from windlass.runtime.outcome import Outcome
from windlass.sources.git_service import GitService
from windlass.telemetry.environments import EnvironmentMetrics
from windlass_dev.cluster.installer import install
from windlass_dev.cluster.local_cluster import LocalCluster

ENVIRONMENTS = environment.KIND.gvr
PROJECTS = project.KIND.gvr
NAMESPACES = GVR("", "v1", "namespaces")
CONFIG_MAPS = GVR("", "v1", "configmaps")
DEPLOYMENTS = GVR("apps", "v1", "deployments")
QUOTAS = GVR("", "v1", "resourcequotas")
POLICIES = GVR("networking.k8s.io", "v1", "networkpolicies")
CLAIMS = GVR("", "v1", "persistentvolumeclaims")
PODS = GVR("", "v1", "pods")
SECRETS = GVR("", "v1", "secrets")
EVENTS = GVR("events.k8s.io", "v1", "events")
MANAGER = "windlass-test"

_numbers = itertools.count(1)

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {color: blue}\n"
SERVICE = (
    "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
    "spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}\n"
)


def deployment(
    name: str = "web", image: str = "registry.invalid/web:1", replicas: int = 1, **container: Any
) -> str:
    """A Deployment as a manifest; JSON is YAML."""
    labels = {"app": name}
    row = {"name": "main", "image": image, **container}
    obj = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [row]}},
        },
    }
    return orjson.dumps(obj).decode() + "\n"


@dataclass(frozen=True)
class RecordedRequest:
    """One request that the controller made."""

    method: str
    path: str
    body: Any

    @property
    def is_write(self) -> bool:
        return self.method != "GET"


class RecordingConnection(Connection):
    """A connection that records its requests, except watches."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.recorded: list[RecordedRequest] = []
        self.in_flight = 0

    async def request(self, method: str, path: str, **options: Any) -> Any:
        content = options.get("content")
        body = orjson.loads(content) if content else None
        self.recorded.append(RecordedRequest(method, path, body))
        self.in_flight += 1
        try:
            return await super().request(method, path, **options)
        finally:
            self.in_flight -= 1

    def requests_for(self, *parts: str) -> list[RecordedRequest]:
        """The recorded requests whose path contains one of these texts."""
        return [request for request in self.recorded if any(part in request.path for part in parts)]


@dataclass
class EnvironmentHarness:
    """One tenant namespace with a repository, an administrator's client and the operator's."""

    api: Api  # the administrator's client
    namespace: str  # of the tenant: Projects and Environments are created here
    git_server: RunningGitServer
    repository: Path  # the bare repository on disk
    url: str  # the address of the repository
    settings: EnvironmentsSettings
    git: GitSettings
    connection: RecordingConnection  # the operator's own
    kubeconfig: Path  # with exactly the operator's rights
    # The name of the Project.
    name: str = field(default_factory=lambda: f"p{next(_numbers)}")
    # One entry for every finished reconcile of an Environment.
    reconciled: list[Key] = field(default_factory=list)
    metrics: EnvironmentMetrics = field(
        default_factory=lambda: EnvironmentMetrics(CollectorRegistry())
    )

    def commit(self, files: Mapping[str, str | None], branch: str = "main") -> str:
        return commit_files(self.repository, files, branch=branch)

    def project(self, **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": PROJECTS.api_version,
            "kind": "Project",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "sources": [{"name": "app", "repositoryUrl": self.url, "branch": "main"}],
                "templates": {"default": {"type": "manifest", "path": "deploy"}},
                **spec,
            },
        }

    def environment(self, name: str = "one", **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": ENVIRONMENTS.api_version,
            "kind": "Environment",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "projectRef": {"name": self.name},
                "type": "staging",
                "sources": [{"name": "app"}],
                **spec,
            },
        }

    async def apply(self, *objects: dict[str, Any]) -> None:
        for obj in objects:
            gvr = PROJECTS if obj["kind"] == "Project" else ENVIRONMENTS
            await self.api.apply(gvr, obj, field_manager=MANAGER)

    async def get(self, name: str = "one") -> dict[str, Any]:
        return await self.api.get(ENVIRONMENTS, name, self.namespace)

    async def phase(self, desired: str, name: str = "one", *, seconds: float = 30.0) -> Any:
        """The Environment, once it is in a phase for the generation it now has."""

        async def poll() -> Any:
            environment = await self.get(name)
            status = environment.get("status") or {}
            is_current = status.get("observedGeneration") == environment["metadata"]["generation"]
            return environment if is_current and status.get("phase") == desired else None

        try:
            return await eventually(poll, f"{name} is {desired}", seconds=seconds)
        except AssertionError as error:
            raise AssertionError(
                f"{error}; status {(await self.get(name)).get('status')}"
            ) from None

    async def environment_namespace(self, name: str = "one") -> str:
        return str((await self.get(name))["status"]["namespace"])

    async def request_reconcile(self, name: str = "one") -> None:
        """Request a reconcile by annotation, and wait until status acknowledges it."""
        stamp = f"2026-01-01T00:00:{next(_numbers) % 60:02d}.{next(_numbers)}Z"
        patch = {"metadata": {"annotations": {"windlass.dev/requestedAt": stamp}}}
        await self.api.merge_patch(ENVIRONMENTS, name, patch, self.namespace, field_manager=MANAGER)

        async def handled() -> bool:
            status = (await self.get(name)).get("status") or {}
            return bool(status.get("lastHandledReconcileAt") == stamp)

        await eventually(handled, "the request is acknowledged")

    async def wait_deleted(
        self, gvr: GVR, name: str, namespace: str = "", *, seconds: float = 40.0
    ) -> None:
        async def poll() -> bool:
            try:
                await self.api.get(gvr, name, namespace)
            except NotFound:
                return True
            return False

        await eventually(poll, f"{gvr.resource} {name} is deleted", seconds=seconds)

    async def patch(
        self, gvr: GVR, name: str, patch: Any, namespace: str = "", **options: Any
    ) -> Any:
        """A merge patch by a client other than the operator."""
        return await self.api.merge_patch(
            gvr, name, patch, namespace, field_manager=MANAGER, **options
        )

    async def condition(self, kind: str, reason: str, name: str = "one") -> Any:
        """The Environment, once a condition of it has this reason for its generation."""

        async def poll() -> Any:
            environment = await self.get(name)
            rows = (environment.get("status") or {}).get("conditions") or []
            condition = {row["type"]: row for row in rows}.get(kind, {})
            is_current = (
                condition.get("observedGeneration") == environment["metadata"]["generation"]
            )
            return environment if is_current and condition["reason"] == reason else None

        try:
            return await eventually(poll, f"{kind} of {name} has reason {reason}")
        except AssertionError as error:
            raise AssertionError(
                f"{error}; status {(await self.get(name)).get('status')}"
            ) from None

    async def pods(self, namespace: str) -> list[Any]:
        pods = await self.api.list(PODS, namespace)
        return [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]

    async def report_pods(self, namespace: str, *, ready: bool, **container: Any) -> int:
        """Report the status of every pod in `namespace`, as a kubelet does; how many there are."""
        pods = await self.pods(namespace)
        row = {
            "name": "main",
            "image": "x",
            "imageID": "",
            "ready": ready,
            "restartCount": 0,
            **container,
        }
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        status = {"phase": "Running", "conditions": [condition], "containerStatuses": [row]}
        for pod in pods:
            with contextlib.suppress(NotFound):
                name = pod["metadata"]["name"]
                await self.patch(PODS, name, {"status": status}, namespace, subresource="status")
        return len(pods)

    async def wait_running(self, name: str = "one", *, commit: str = "") -> Any:
        """The Environment, once it is Ready with its pods reported ready, if given of a commit."""

        async def poll() -> Any:
            environment = await self.get(name)
            status = environment.get("status") or {}
            if status.get("namespace"):
                await self.report_pods(status["namespace"], ready=True)
            is_current = status.get("observedGeneration") == environment["metadata"]["generation"]
            serving = (status.get("serving") or {}).get("commits") or {}
            serves_commit = not commit or commit in serving.values()
            return (
                environment
                if is_current and serves_commit and status.get("phase") == "Ready"
                else None
            )

        return await eventually(poll, f"{name} is running")

    async def reconcile_times(
        self, controller: EnvironmentsController, number: int, name: str = "one"
    ) -> None:
        """Reconcile an Environment `number` times, one after the other."""
        key = Key(self.namespace, name)
        for _ in range(number):
            expected = self.reconciled.count(key) + 1
            controller._queues["Environment"].add(key)

            async def is_reconciled(expected: int = expected) -> bool:
                return self.reconciled.count(key) >= expected

            await eventually(is_reconciled, "one more reconcile")
        await eventually(self._is_idle, "the last reconcile is written")

    def _record_reconciles(self, reconcile: Reconcile[Key]) -> Reconcile[Key]:
        async def recorded(key: Key) -> Outcome:
            outcome = await reconcile(key)
            self.reconciled.append(key)
            return outcome

        return recorded

    async def _is_idle(self) -> bool:
        return self.connection.in_flight == 0

    async def events(self, reason: str) -> list[Any]:
        events = await self.api.list(EVENTS, self.namespace)
        return [event for event in events if event["reason"] == reason]

    @contextlib.asynccontextmanager
    async def running(self, **changes: Any) -> AsyncIterator[EnvironmentsController]:
        """The controller, as the operator's own user."""
        settings = dataclasses.replace(self.settings, **changes)
        self.metrics = EnvironmentMetrics(CollectorRegistry())
        clock = SystemClock()
        service = GitService(self.git, clock=clock)
        controller = EnvironmentsController(
            self.connection,
            settings,
            service,
            clock=clock,
            metrics=self.metrics,
        )
        environments = controller._controllers[0]
        environments._reconcile = self._record_reconciles(environments._reconcile)
        task = asyncio.create_task(controller.run())
        try:
            yield controller
            if task.done():
                task.result()
        finally:
            # A request that is canceled while its connection opens leaves a warning behind.
            await eventually(self._is_idle, "no request is in flight")
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await service.close()


@contextlib.asynccontextmanager
async def environment_harness(
    cluster: LocalCluster,
    namespace: str,
    git_server: RunningGitServer,
    directory: Path,
    *,
    kubeconfig: Path | None = None,
) -> AsyncIterator[EnvironmentHarness]:
    """A harness without the controller, which a test starts itself.

    `kubeconfig` is that of an installed operator; without it, the operator is installed here.
    """
    if kubeconfig is None:
        kubeconfig = (await install(cluster, Installation())).kubeconfig
    name = f"app-{namespace}"
    repository = git_server.create(name, {"deploy/all.yaml": CONFIG_MAP})
    settings = EnvironmentsSettings(
        work_directory=directory / "work",
        operator=OperatorAccount("windlass-operator"),
        poll_seconds=1.0,
    )
    async with (
        Connection.open(kubeconfig=cluster.admin_kubeconfig) as admin,
        RecordingConnection.open(kubeconfig=kubeconfig) as operator,
    ):
        assert isinstance(operator, RecordingConnection)
        yield EnvironmentHarness(
            Api(admin),
            namespace,
            git_server,
            repository,
            git_server.server.url(name),
            settings,
            git_settings(directory),
            operator,
            kubeconfig,
        )
