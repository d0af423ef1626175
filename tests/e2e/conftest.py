"""A node with what previews are fenced from, and tenants who run previews there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.gitserver import Served, serving

if TYPE_CHECKING:
    from tests.support.outskirts import Outskirts
    from tests.support.previews import Previews
    from windlass_dev.cluster.local_cluster import LocalCluster


@pytest.fixture(scope="session")
def preview_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A git server that all tenants share."""
    with serving(tmp_path_factory.mktemp("previews")) as served:
        yield served


@pytest.fixture(scope="session")
def node_operator(node_cluster: LocalCluster) -> Path:
    """The kubeconfig with exactly the operator's rights on the node's cluster."""
    from windlass.api.install.installation import Installation
    from windlass_dev.cluster.installer import install

    return asyncio.run(install(node_cluster, Installation())).kubeconfig


@pytest.fixture(scope="session")
def outskirts(node_cluster: LocalCluster) -> Iterator[Outskirts]:
    """Names to ask, addresses to be kept from, and somebody whom nothing keeps."""
    from tests.support.outskirts import Outskirts

    with contextlib.ExitStack() as stack:
        yield Outskirts.laid_out(node_cluster, stack)


@pytest.fixture
async def tenant(
    node_cluster: LocalCluster, node_operator: Path, preview_host: Served, tmp_path: Path
) -> AsyncIterator[Previews]:
    """A namespace of the test's own with a repository and nobody working on it yet."""
    from tests.support import cluster as support
    from tests.support.previews import previews

    with support.fresh_namespace(node_cluster, pods=True) as name:
        async with previews(
            node_cluster, name, preview_host, tmp_path, kubeconfig=node_operator
        ) as found:
            yield found
