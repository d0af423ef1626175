"""One tenant's slow servers do not keep another tenant waiting."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import control_plane as clusters
from tests.support.git.http_server import RunningGitServer, running_git_server
from tests.support.processes.operator import Operator, running_operator
from tests.support.processes.polling import eventually
from windlass.api.kinds import environment, project
from windlass.api.kinds.registry import GIT_REPO_CONFIGS, IGNITION_SYNCS
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.objects.names import GVR, Object
from windlass_dev.cluster.local_cluster import LocalCluster
from windlass_dev.git_server.fault_injection import GitFault

COUNT = 100
"""Objects of the slow tenant, of each kind."""

_log = logging.getLogger(__name__)

_CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {value: one}\n"


def _git_repo_config(url: str) -> tuple[GVR, str, Object]:
    return GIT_REPO_CONFIGS, "GitRepoConfig", {"repoUrl": url, "allowedBranches": ["main"]}


def _ignition_sync(url: str) -> tuple[GVR, str, Object]:
    spec = {
        "git": {"repo": url, "ref": "main"},
        "polling": {"interval": "60s"},
        "gateway": {"apiKeySecretRef": {"name": "key"}},
    }
    return IGNITION_SYNCS, "IgnitionSync", spec


def _project(url: str) -> tuple[GVR, str, Object]:
    spec = {
        "sources": [{"name": "app", "repositoryUrl": url, "branch": "main"}],
        "templates": {"default": {"type": "manifest", "path": "k8s"}},
    }
    return project.KIND.gvr, "Project", spec


def _environment(name: str) -> tuple[GVR, str, Object]:
    spec = {
        "projectRef": {"name": name},
        "type": "development",
        "sources": [{"name": "app", "branch": "main"}],
    }
    return environment.KIND.gvr, "Environment", spec


class Tenant:
    """A namespace, and the server that its repositories are at."""

    def __init__(self, api: Api, namespace: str, served: RunningGitServer) -> None:
        self._api = api
        self.namespace = namespace
        self._served = served

    async def create(self, number: int) -> None:
        """One object of each kind, with a repository of its own."""
        repository = f"{self.namespace}-{number}"
        self._served.create(repository, {"k8s/c.yaml": _CONFIG_MAP})
        url, name = self._served.server.url(repository), f"n{number}"
        for gvr, kind, spec in (
            _git_repo_config(url),
            _ignition_sync(url),
            _project(url),
            _environment(name),
        ):
            body = {
                "apiVersion": gvr.api_version,
                "kind": kind,
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": spec,
            }
            await self._api.create(gvr, body, field_manager="test")

    async def until(self, gvr: GVR, condition: str) -> None:
        """Wait until the first object has a condition that is True."""

        async def is_true() -> bool:
            status = (await self._api.get(gvr, "n0", self.namespace)).get("status") or {}
            rows: list[Any] = status.get("conditions") or []
            return any(row["type"] == condition and row["status"] == "True" for row in rows)

        await eventually(is_true, f"{gvr.resource} is {condition}")


@pytest.fixture(scope="module")
def operator(desk: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """An operator with all capabilities."""
    directory = tmp_path_factory.mktemp("operator")
    with running_operator(desk, directory, authors=False) as found:
        yield found


@pytest.fixture
def new_tenant(
    desk: LocalCluster, operator: Operator, tmp_path: Path
) -> Iterator[Callable[[Api, str], Tenant]]:
    """Makes tenants, each with a namespace and a server."""
    with (
        clusters.fresh_namespace(desk) as slow,
        clusters.fresh_namespace(desk) as quick,
        running_git_server(tmp_path / "slow") as slow_server,
        running_git_server(tmp_path / "quick") as quick_server,
    ):
        places = {"slow": (slow, slow_server), "quick": (quick, quick_server)}
        yield lambda api, name: Tenant(api, *places[name])


@pytest.fixture
async def api(desk: LocalCluster) -> AsyncIterator[Api]:
    """An administrator's client."""
    async with Connection.open(kubeconfig=desk.admin_kubeconfig) as connection:
        yield Api(connection)


async def test_a_hundred_slow_repositories_of_one_tenant_delay_no_other(
    api: Api,
    new_tenant: Callable[[Api, str], Tenant],
) -> None:
    """GIT-5: all three capabilities serve it while the others still get one byte a second."""
    slow, quick = new_tenant(api, "slow"), new_tenant(api, "quick")
    slow._served.server.faults.set(GitFault("slow"))
    for number in range(COUNT):
        await slow.create(number)
    began = time.monotonic()
    await quick.create(0)

    async def served(gvr: GVR, condition: str) -> None:
        await quick.until(gvr, condition)
        _log.info("%s served after %.1f s", gvr.resource, time.monotonic() - began)

    waits: list[Awaitable[None]] = [
        served(GIT_REPO_CONFIGS, "Ready"),
        served(IGNITION_SYNCS, "RepoCloned"),
        served(project.KIND.gvr, "Ready"),
        served(environment.KIND.gvr, "Ready"),
    ]
    await asyncio.gather(*waits)
