"""Projects, Environments, and the controller that makes them run."""

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

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: blue}\n"
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
    """A connection that remembers what was asked of it, watches aside."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.made: list[RecordedRequest] = []
        self.under_way = 0

    async def request(self, method: str, path: str, **options: Any) -> Any:
        content = options.get("content")
        body = orjson.loads(content) if content else None
        self.made.append(RecordedRequest(method, path, body))
        self.under_way += 1
        try:
            return await super().request(method, path, **options)
        finally:
            self.under_way -= 1

    def about(self, *words: str) -> list[RecordedRequest]:
        """The requests whose path holds one of these words."""
        return [one for one in self.made if any(word in one.path for word in words)]


@dataclass
class EnvironmentHarness:
    """One tenant namespace, one repository, and everybody's hands."""

    api: Api
    namespace: str
    served: RunningGitServer
    repository: Path
    url: str
    settings: EnvironmentsSettings
    git: GitSettings
    connection: RecordingConnection
    kubeconfig: Path
    name: str = field(default_factory=lambda: f"p{next(_numbers)}")
    looked: list[Key] = field(default_factory=list)
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

    async def phase(self, wanted: str, name: str = "one", *, seconds: float = 30.0) -> Any:
        """The Environment, once it is in a phase for the generation it now has."""

        async def look() -> Any:
            found = await self.get(name)
            status = found.get("status") or {}
            seen = status.get("observedGeneration") == found["metadata"]["generation"]
            return found if seen and status.get("phase") == wanted else None

        try:
            return await eventually(look, f"{name} is {wanted}", seconds=seconds)
        except AssertionError as error:
            raise AssertionError(
                f"{error}; status {(await self.get(name)).get('status')}"
            ) from None

    async def place(self, name: str = "one") -> str:
        return str((await self.get(name))["status"]["namespace"])

    async def poke(self, name: str = "one") -> None:
        """Ask for a look now, and wait until it was taken."""
        stamp = f"2026-01-01T00:00:{next(_numbers) % 60:02d}.{next(_numbers)}Z"
        patch = {"metadata": {"annotations": {"windlass.dev/requestedAt": stamp}}}
        await self.api.merge_patch(ENVIRONMENTS, name, patch, self.namespace, field_manager=MANAGER)

        async def handled() -> bool:
            status = (await self.get(name)).get("status") or {}
            return bool(status.get("lastHandledReconcileAt") == stamp)

        await eventually(handled, "the request is acknowledged")

    async def gone(
        self, gvr: GVR, name: str, namespace: str = "", *, seconds: float = 40.0
    ) -> None:
        async def look() -> bool:
            try:
                await self.api.get(gvr, name, namespace)
            except NotFound:
                return True
            return False

        await eventually(look, f"{gvr.resource} {name} gone", seconds=seconds)

    async def patch(self, gvr: GVR, name: str, patch: Any, namespace: str = "", **how: Any) -> Any:
        """A merge patch by somebody who is not the operator."""
        return await self.api.merge_patch(gvr, name, patch, namespace, field_manager=MANAGER, **how)

    async def condition(self, kind: str, reason: str, name: str = "one") -> Any:
        """The Environment, once a condition of it has this reason for its generation."""

        async def look() -> Any:
            found = await self.get(name)
            rows = (found.get("status") or {}).get("conditions") or []
            said = {row["type"]: row for row in rows}.get(kind, {})
            seen = said.get("observedGeneration") == found["metadata"]["generation"]
            return found if seen and said["reason"] == reason else None

        try:
            return await eventually(look, f"{kind} of {name} says {reason}")
        except AssertionError as error:
            raise AssertionError(
                f"{error}; status {(await self.get(name)).get('status')}"
            ) from None

    async def pods(self, place: str) -> list[Any]:
        found = await self.api.list(PODS, place)
        return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]

    async def pods_say(self, place: str, *, ready: bool, **container: Any) -> int:
        """What a kubelet would report of every pod in `place`; how many there are."""
        pods = await self.pods(place)
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
                await self.patch(PODS, name, {"status": status}, place, subresource="status")
        return len(pods)

    async def started(self, name: str = "one", *, commit: str = "") -> Any:
        """The Environment, once all its pods run and it is ready, if need be of a commit."""

        async def look() -> Any:
            found = await self.get(name)
            status = found.get("status") or {}
            if status.get("namespace"):
                await self.pods_say(status["namespace"], ready=True)
            seen = status.get("observedGeneration") == found["metadata"]["generation"]
            serves = (status.get("serving") or {}).get("commits") or {}
            is_right = not commit or commit in serves.values()
            return found if seen and is_right and status.get("phase") == "Ready" else None

        return await eventually(look, f"{name} runs")

    async def passes(
        self, controller: EnvironmentsController, number: int, name: str = "one"
    ) -> None:
        """Have `number` whole passes over an Environment, one after the other."""
        key = Key(self.namespace, name)
        for _ in range(number):
            wanted = self.looked.count(key) + 1
            controller._queues["Environment"].add(key)

            async def one_more(wanted: int = wanted) -> bool:
                return self.looked.count(key) >= wanted

            await eventually(one_more, "a pass")
        await eventually(self._quiet, "what the last pass found is written")

    def _recorded(self, reconcile: Reconcile[Key]) -> Reconcile[Key]:
        async def recorded(key: Key) -> Outcome:
            outcome = await reconcile(key)
            self.looked.append(key)
            return outcome

        return recorded

    async def _quiet(self) -> bool:
        return self.connection.under_way == 0

    async def events(self, reason: str) -> list[Any]:
        found = await self.api.list(EVENTS, self.namespace)
        return [event for event in found if event["reason"] == reason]

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
        passes = controller._controllers[0]
        passes._reconcile = self._recorded(passes._reconcile)
        task = asyncio.create_task(controller.run())
        try:
            yield controller
            if task.done():
                task.result()
        finally:
            # A request that is cut off while its connection opens leaves a warning behind.
            await eventually(self._quiet, "no request is under way")
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await service.close()


@contextlib.asynccontextmanager
async def environment_harness(
    desk: LocalCluster,
    namespace: str,
    served: RunningGitServer,
    directory: Path,
    *,
    kubeconfig: Path | None = None,
) -> AsyncIterator[EnvironmentHarness]:
    """Everything but the controller, which a test starts itself.

    `kubeconfig` is that of an operator that is installed already.
    """
    if kubeconfig is None:
        kubeconfig = (await install(desk, Installation())).kubeconfig
    name = f"app-{namespace}"
    repository = served.create(name, {"deploy/all.yaml": CONFIG_MAP})
    settings = EnvironmentsSettings(
        work_directory=directory / "work",
        operator=OperatorAccount("windlass-operator"),
        poll_seconds=1.0,
    )
    async with (
        Connection.open(kubeconfig=desk.admin_kubeconfig) as admin,
        RecordingConnection.open(kubeconfig=kubeconfig) as operator,
    ):
        assert isinstance(operator, RecordingConnection)
        yield EnvironmentHarness(
            Api(admin),
            namespace,
            served,
            repository,
            served.server.url(name),
            settings,
            git_settings(directory),
            operator,
            kubeconfig,
        )
