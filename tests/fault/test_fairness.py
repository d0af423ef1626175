"""One tenant's slow servers do not keep another tenant waiting."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
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
"""Objects of the slow tenant."""

_log = logging.getLogger(__name__)

_CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {value: one}\n"


Spec = tuple[GVR, str, Object]
Objects = Callable[[str, str], tuple[Spec, ...]]
"""Specs for the URL of a repository and a name; the last one needs all that come before."""


def _reverser(url: str, _: str) -> tuple[Spec, ...]:
    return ((GIT_REPO_CONFIGS, "GitRepoConfig", {"repoUrl": url, "allowedBranches": ["main"]}),)


def _gateways(url: str, _: str) -> tuple[Spec, ...]:
    spec = {
        "git": {"repo": url, "ref": "main"},
        "polling": {"interval": "60s"},
        "gateway": {"apiKeySecretRef": {"name": "key"}},
    }
    return ((IGNITION_SYNCS, "IgnitionSync", spec),)


def _environments(url: str, name: str) -> tuple[Spec, ...]:
    project_spec = {
        "sources": [{"name": "app", "repositoryUrl": url, "branch": "main"}],
        "templates": {"default": {"type": "manifest", "path": "k8s"}},
    }
    environment_spec = {
        "projectRef": {"name": name},
        "type": "development",
        "sources": [{"name": "app", "branch": "main"}],
    }
    return (
        (project.KIND.gvr, "Project", project_spec),
        (environment.KIND.gvr, "Environment", environment_spec),
    )


class Tenant:
    """A namespace, and the server of its repositories."""

    def __init__(self, api: Api, namespace: str, served: RunningGitServer) -> None:
        self._api = api
        self._namespace = namespace
        self.server = served

    async def create(self, objects: Objects, number: int) -> None:
        """Objects of one capability with a repository of their own."""
        repository, name = f"{self._namespace}-{number}", f"n{number}"
        self.server.create(repository, {"k8s/c.yaml": _CONFIG_MAP})
        for gvr, kind, spec in objects(self.server.server.url(repository), name):
            body = {
                "apiVersion": gvr.api_version,
                "kind": kind,
                "metadata": {"name": name, "namespace": self._namespace},
                "spec": spec,
            }
            await self._api.create(gvr, body, field_manager="test")

    async def until(self, gvr: GVR, condition: str) -> None:
        """Wait until the first object has a condition that is True."""

        async def is_true() -> bool:
            status = (await self._api.get(gvr, "n0", self._namespace)).get("status") or {}
            rows: list[Any] = status.get("conditions") or []
            return any(row["type"] == condition and row["status"] == "True" for row in rows)

        await eventually(is_true, f"{gvr.resource} is {condition}")


@pytest.fixture(scope="module")
def operator(
    fault_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """An operator with all capabilities."""
    directory = tmp_path_factory.mktemp("operator")
    with running_operator(fault_cluster, directory, authors=False) as started:
        yield started


@pytest.fixture
def new_tenant(
    fault_cluster: LocalCluster, operator: Operator, tmp_path: Path
) -> Iterator[Callable[[Api, str], Tenant]]:
    """Creates tenants, each with a namespace and a server."""
    with (
        clusters.fresh_namespace(fault_cluster) as slow,
        clusters.fresh_namespace(fault_cluster) as quick,
        running_git_server(tmp_path / "slow") as slow_server,
        running_git_server(tmp_path / "quick") as quick_server,
    ):
        tenants = {"slow": (slow, slow_server), "quick": (quick, quick_server)}
        yield lambda api, name: Tenant(api, *tenants[name])


@pytest.fixture
async def api(fault_cluster: LocalCluster) -> AsyncIterator[Api]:
    """The administrator's client."""
    async with Connection.open(kubeconfig=fault_cluster.admin_kubeconfig) as connection:
        yield Api(connection)


@pytest.mark.parametrize(
    ("objects", "gvr", "condition"),
    [
        (_reverser, GIT_REPO_CONFIGS, "Ready"),
        (_gateways, IGNITION_SYNCS, "RepoCloned"),
        (_environments, environment.KIND.gvr, "Ready"),
    ],
)
async def test_slow_repositories_of_one_tenant_do_not_delay_another(
    api: Api,
    new_tenant: Callable[[Api, str], Tenant],
    objects: Objects,
    gvr: GVR,
    condition: str,
) -> None:
    """GIT-5: another tenant is served while a hundred objects still get one byte a second."""
    slow, quick = new_tenant(api, "slow"), new_tenant(api, "quick")
    slow.server.server.faults.set(GitFault("slow"))
    for number in range(COUNT // len(objects("", ""))):
        await slow.create(objects, number)
    began = time.monotonic()
    await quick.create(objects, 0)
    await quick.until(gvr, condition)
    _log.info("%s served after %.1f s", gvr.resource, time.monotonic() - began)
