"""Projects, Environments, and the controller that makes them run."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.gitserver import Served, commit_files, git_settings
from windlass.api import environment, project
from windlass.api.install import Install
from windlass.base.clock import SystemClock
from windlass.dev.desk import Desk
from windlass.dev.install import install
from windlass.environments.controller import EnvironmentsController, EnvironmentsSettings
from windlass.environments.decide.owned_objects import Subject
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import NotFound
from windlass.objects.gvr import GVR

ENVIRONMENTS = environment.KIND.gvr
PROJECTS = project.KIND.gvr
NAMESPACES = GVR("", "v1", "namespaces")
CONFIG_MAPS = GVR("", "v1", "configmaps")
DEPLOYMENTS = GVR("apps", "v1", "deployments")
QUOTAS = GVR("", "v1", "resourcequotas")
POLICIES = GVR("networking.k8s.io", "v1", "networkpolicies")
MANAGER = "windlass-test"

_numbers = itertools.count(1)

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: blue}\n"
SERVICE = (
    "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
    "spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}\n"
)


async def eventually(
    asks: Callable[[], Awaitable[Any]], what: str, *, seconds: float = 30.0
) -> Any:
    """Ask until the answer is something, with a deadline."""
    answer: Any = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                answer = await asks()
                if answer:
                    return answer
                await asyncio.sleep(0.03)
    except TimeoutError:
        raise AssertionError(f"not within {seconds:g} s: {what}; last answer {answer!r}") from None


@dataclass
class Previews:
    """One tenant namespace, one repository, and everybody's hands."""

    api: Api
    namespace: str
    served: Served
    repository: Path
    url: str
    settings: EnvironmentsSettings
    connection: Connection
    name: str = field(default_factory=lambda: f"p{next(_numbers)}")

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

    @contextlib.asynccontextmanager
    async def running(self, **changes: Any) -> AsyncIterator[EnvironmentsController]:
        """The controller, as the operator's own user."""
        settings = dataclasses.replace(self.settings, **changes)
        controller = EnvironmentsController(self.connection, settings, clock=SystemClock())
        task = asyncio.create_task(controller.run())
        try:
            yield controller
            if task.done():
                task.result()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@contextlib.asynccontextmanager
async def previews(
    desk: Desk, namespace: str, served: Served, directory: Path
) -> AsyncIterator[Previews]:
    """Everything but the controller, which a test starts itself."""
    installed = await install(desk, Install())
    name = f"app-{namespace}"
    repository = served.create(name, {"deploy/all.yaml": CONFIG_MAP})
    settings = EnvironmentsSettings(
        work_directory=directory / "work",
        git=git_settings(directory),
        operator=Subject("windlass-operator"),
        poll_seconds=1.0,
    )
    async with (
        Connection.open(kubeconfig=desk.admin_kubeconfig) as admin,
        Connection.open(kubeconfig=installed.kubeconfig) as operator,
    ):
        yield Previews(
            Api(admin), namespace, served, repository, served.server.url(name), settings, operator
        )
