"""A node with the network peers that previews are isolated from, and tenants on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.git.http_server import RunningGitServer, running_git_server

if TYPE_CHECKING:
    from tests.support.environments.environment_harness import EnvironmentHarness
    from tests.support.environments.network_neighbors import NetworkNeighbors
    from windlass_dev.cluster.local_cluster import LocalCluster


@pytest.fixture(scope="session")
def preview_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGitServer]:
    """A git server that all tenants share."""
    with running_git_server(tmp_path_factory.mktemp("previews")) as server:
        yield server


@pytest.fixture(scope="session")
def node_operator(node_cluster: LocalCluster) -> Path:
    """The kubeconfig with exactly the operator's rights on the node's cluster."""
    from windlass.api.install.installation import Installation
    from windlass_dev.cluster.installer import install

    return asyncio.run(install(node_cluster, Installation())).kubeconfig


@pytest.fixture(scope="session")
def neighbors(node_cluster: LocalCluster) -> Iterator[NetworkNeighbors]:
    """A DNS server, addresses that previews must not reach, and a pod without isolation."""
    from tests.support.environments.network_neighbors import NetworkNeighbors

    with contextlib.ExitStack() as stack:
        yield NetworkNeighbors.start(node_cluster, stack)


@pytest.fixture
async def tenant(
    node_cluster: LocalCluster, node_operator: Path, preview_host: RunningGitServer, tmp_path: Path
) -> AsyncIterator[EnvironmentHarness]:
    """A namespace of the test's own with a repository; the controller is not started yet."""
    from tests.support.cluster import control_plane as support
    from tests.support.environments.environment_harness import environment_harness

    with support.fresh_namespace(node_cluster, pods=True) as name:
        async with environment_harness(
            node_cluster, name, preview_host, tmp_path, kubeconfig=node_operator
        ) as harness:
            yield harness
