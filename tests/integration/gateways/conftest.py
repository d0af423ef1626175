"""A git server, a connection as the operator's own user, and one controller for each test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.gateways.fleet import Fleet, RunningController, running_controller, settle
from tests.support.git.http_server import PASSWORD, RunningGitServer, running_git_server
from windlass.api.install.installation import Installation
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass_dev.cluster.installer import install

if TYPE_CHECKING:
    from windlass_dev.cluster.local_cluster import LocalCluster


@pytest.fixture(scope="session")
def cluster(quiet_cluster: LocalCluster) -> LocalCluster:
    """A control plane without an operator: only the controllers of these tests run on it."""
    return quiet_cluster


@pytest.fixture(scope="session")
def git_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGitServer]:
    """A real smart-HTTP git server without authentication."""
    with running_git_server(tmp_path_factory.mktemp("gateway-git")) as served:
        yield served


@pytest.fixture(scope="session")
def closed_git_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGitServer]:
    """A git server that requires a password."""
    root = tmp_path_factory.mktemp("closed-git")
    with running_git_server(root, username="git", password=PASSWORD) as served:
        yield served


@pytest.fixture(scope="session")
def operator_kubeconfig(cluster: LocalCluster) -> Path:
    """The user that the generated roles are bound to, with CRDs and operator policy installed."""
    return asyncio.run(install(cluster, Installation())).kubeconfig


@pytest.fixture
async def connection(operator_kubeconfig: Path) -> AsyncIterator[Connection]:
    """The operator's connection."""
    async with Connection.open(kubeconfig=operator_kubeconfig) as opened:
        yield opened
    await settle()


@pytest.fixture
async def admin_connection(cluster: LocalCluster) -> AsyncIterator[Connection]:
    """The administrator's connection."""
    async with Connection.open(kubeconfig=cluster.admin_kubeconfig) as opened:
        yield opened
    await settle()


@pytest.fixture
async def running(connection: Connection, tmp_path: Path) -> AsyncIterator[RunningController]:
    """A controller with its generated rights."""
    async with running_controller(connection, tmp_path) as controller:
        yield controller


@pytest.fixture
async def fleet(admin_connection: Connection, git_host: RunningGitServer, namespace: str) -> Fleet:
    """A namespace with its own repository, and no IgnitionSync yet."""
    created = Fleet(Api(admin_connection), admin_connection, git_host, namespace)
    await created.account("default")
    return created
