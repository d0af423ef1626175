"""One operator and one git server, shared by the tests of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support import cluster as clusters
from tests.support.central import central
from tests.support.gitserver import PASSWORD, Served, serving
from tests.support.mirrored import Mirrored
from tests.support.operator import Operator, operating
from tests.support.people import SwiftMirrored
from tests.support.worker_site import Site, standing
from windlass_dev.cluster.local_cluster import LocalCluster


@pytest.fixture(scope="session")
def git_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A real smart-HTTP git server that asks for a password."""
    root = tmp_path_factory.mktemp("git-host")
    with serving(root, username="git", password=PASSWORD) as served:
        yield served


@pytest.fixture(scope="session")
def operator(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The operator that these tests share, as a process of its own."""
    clusters.bind_cluster_admin(cluster, "dev")
    directory = tmp_path_factory.mktemp("operator")
    flags = ("--remote-check-interval=2s", "--removal-grace=3s", "--log-level=debug")
    with operating(cluster, directory, *flags) as found:
        yield found


@pytest.fixture
def mirrored(
    cluster: LocalCluster, operator: Operator, git_host: Served, namespace: str
) -> Mirrored:
    """A namespace with a repository of its own; its people act by HTTPS."""
    operator.await_provable()
    return SwiftMirrored(cluster, git_host, namespace, f"{namespace}.git")


@pytest.fixture
def platform(cluster: LocalCluster, operator: Operator, git_host: Served) -> Iterator[Mirrored]:
    """A repository that cluster rules may feed."""
    operator.await_provable()
    with central(cluster, git_host) as found:
        yield found


@pytest.fixture
async def site(git_host: Served, tmp_path: Path) -> AsyncIterator[Site]:
    """One branch worker, driven by hand, and a branch with one file of somebody else."""
    async with standing(git_host, tmp_path) as found:
        yield found
