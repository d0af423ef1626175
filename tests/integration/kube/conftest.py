"""Connections to the shared control plane: direct, and through the fault proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.kube.watch_proxy import WatchProxy
from windlass.kube.api import Api
from windlass.kube.connection import Connection

if TYPE_CHECKING:
    from windlass_dev.cluster.local_cluster import LocalCluster


@pytest.fixture
async def connection(cluster: LocalCluster) -> AsyncIterator[Connection]:
    """The administrator's connection to the control plane."""
    async with Connection.open(kubeconfig=cluster.admin_kubeconfig) as opened:
        yield opened


@pytest.fixture
def api(connection: Connection) -> Api:
    """The administrator's client."""
    return Api(connection)


@pytest.fixture
async def proxy(cluster: LocalCluster) -> AsyncIterator[WatchProxy]:
    """A proxy in front of the control plane, without faults yet."""
    async with WatchProxy(cluster.admin_kubeconfig) as running:
        yield running


@pytest.fixture
async def through(proxy: WatchProxy, tmp_path: Path) -> AsyncIterator[Connection]:
    """A connection that goes through the proxy."""
    kubeconfig = proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")
    async with Connection.open(kubeconfig=kubeconfig) as opened:
        yield opened
