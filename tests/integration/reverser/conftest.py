"""One operator and one git server, shared by the tests of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.cluster import control_plane as clusters
from tests.support.git.http_server import PASSWORD, RunningGitServer, running_git_server
from tests.support.processes.operator import Operator, running_operator
from tests.support.reverser.api_users import ApiMirroredNamespace
from tests.support.reverser.branch_worker import WorkerHarness, running_worker
from tests.support.reverser.central_repository import central_repository
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass_dev.cluster.local_cluster import LocalCluster


@pytest.fixture(scope="session")
def git_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGitServer]:
    """A real smart-HTTP git server that asks for a password."""
    root = tmp_path_factory.mktemp("git-host")
    with running_git_server(root, username="git", password=PASSWORD) as served:
        yield served


@pytest.fixture(scope="session")
def operator(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The operator that these tests share, as a process of its own."""
    clusters.bind_cluster_admin(cluster, "dev")
    directory = tmp_path_factory.mktemp("operator")
    flags = ("--remote-check-interval=2s", "--removal-grace=3s", "--log-level=debug")
    with running_operator(cluster, directory, *flags) as found:
        yield found


@pytest.fixture
def mirrored(
    cluster: LocalCluster, operator: Operator, git_host: RunningGitServer, namespace: str
) -> MirroredNamespace:
    """A namespace with a repository of its own; its users act by HTTPS."""
    operator.await_provable()
    return ApiMirroredNamespace(cluster, git_host, namespace, f"{namespace}.git")


@pytest.fixture
def platform(
    cluster: LocalCluster, operator: Operator, git_host: RunningGitServer
) -> Iterator[MirroredNamespace]:
    """A repository that cluster rules may feed."""
    operator.await_provable()
    with central_repository(cluster, git_host) as found:
        yield found


@pytest.fixture
async def harness(git_host: RunningGitServer, tmp_path: Path) -> AsyncIterator[WorkerHarness]:
    """One branch worker, driven step by step, and a branch with one foreign file."""
    async with running_worker(git_host, tmp_path) as found:
        yield found
