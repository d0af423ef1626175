"""A tenant namespace with a repository on the shared control plane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.environments.environment_harness import EnvironmentHarness, environment_harness
from tests.support.git.http_server import RunningGitServer, running_git_server

if TYPE_CHECKING:
    from windlass_dev.cluster.local_cluster import LocalCluster


@pytest.fixture(scope="session")
def cluster(quiet_cluster: LocalCluster) -> LocalCluster:
    """A control plane without an operator: the controllers of these tests are alone on it."""
    return quiet_cluster


@pytest.fixture(scope="session")
def preview_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGitServer]:
    """A git server that all tests of environments share."""
    with running_git_server(tmp_path_factory.mktemp("previews")) as server:
        yield server


@pytest.fixture(scope="session")
def installed_operator(cluster: LocalCluster) -> Path:
    """The kubeconfig with exactly the operator's rights; everything is installed."""
    from windlass.api.install.installation import Installation
    from windlass_dev.cluster.installer import install

    return asyncio.run(install(cluster, Installation())).kubeconfig


@pytest.fixture
async def tenant(
    cluster: LocalCluster,
    installed_operator: Path,
    namespace: str,
    preview_host: RunningGitServer,
    tmp_path: Path,
) -> AsyncIterator[EnvironmentHarness]:
    """A namespace of the test's own with a repository; the controller is not started yet."""
    async with environment_harness(
        cluster, namespace, preview_host, tmp_path, kubeconfig=installed_operator
    ) as harness:
        yield harness


@pytest.fixture
def other_namespace(cluster: LocalCluster) -> Iterator[str]:
    """A second namespace, which belongs to no Environment."""
    from tests.support.cluster import control_plane as support

    with support.fresh_namespace(cluster) as name:
        yield name
