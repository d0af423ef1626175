"""A client of the test cluster's API server, with our kinds installed."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.api.server import Server
from tests.support.cluster import api_client
from tests.support.cluster import control_plane as clusters
from tests.support.processes.operator import eventually
from windlass.api.kinds.registry import KINDS
from windlass_dev.cluster.local_cluster import LocalCluster

ROOT = Path(__file__).parents[3]
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """A control plane of its own: these tests install policies that would stop an operator."""
    with clusters.running("api") as target_cluster:
        yield target_cluster


@pytest.fixture(scope="session")
def installed(cluster: LocalCluster) -> LocalCluster:
    """The cluster, once all CRDs of the tree are published on it."""
    command = [str(cluster.kubectl), "--kubeconfig", str(cluster.admin_kubeconfig), "apply"]
    flags = ["--server-side", "--force-conflicts", "-f", str(ROOT / "deploy/crds")]
    subprocess.run([*command, *flags], check=True, capture_output=True)
    eventually(lambda: not _undiscovered(cluster), "all kinds discovered", seconds=60)
    eventually(lambda: not _unexplained(cluster), "all schemas published", seconds=60)
    return cluster


def _undiscovered(target_cluster: LocalCluster) -> list[str]:
    """Kinds that kubectl would not find; the API is served, and Established, before that."""
    answer = api_client.request(
        target_cluster, api_client.ADMIN, "GET", "/apis", headers={"Accept": _DISCOVERY}
    )
    groups = {group["metadata"]["name"]: group["versions"] for group in answer.object["items"]}
    discovered = {
        (name, resource["resource"])
        for name, versions in groups.items()
        for version in versions
        for resource in version.get("resources", ())
    }
    return [kind.name for kind in KINDS if (kind.gvr.group, kind.plural) not in discovered]


def _unexplained(target_cluster: LocalCluster) -> list[str]:
    """Kinds whose schema `kubectl explain` would not find."""
    homes = {f"/openapi/v3/apis/{kind.gvr.api_version}" for kind in KINDS}
    explained = "".join(
        api_client.request(target_cluster, api_client.ADMIN, "GET", home).text for home in homes
    )
    return [kind.name for kind in KINDS if f'/{kind.plural}"' not in explained]


@pytest.fixture
def namespace(cluster: LocalCluster) -> str:
    """A namespace of the test's own; no operator acts on this cluster, so it is not removed."""
    return create_namespace(cluster)


@pytest.fixture(scope="session")
def dry(cluster: LocalCluster) -> str:
    """A namespace for dry-run requests."""
    return create_namespace(cluster)


def create_namespace(target_cluster: LocalCluster) -> str:
    """Create a namespace with an unused name."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    created = Server(target_cluster).create(body)
    assert created.accepted, created.message
    return name


@pytest.fixture(scope="session")
def server(installed: LocalCluster) -> Server:
    """Plain HTTPS requests as the administrator."""
    return Server(installed)


@pytest.fixture(scope="session")
def kubectl(installed: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """`kubectl(*args, stdin="")` as the administrator, for tests of kubectl's own behavior."""
    # What it learnt of the types before ours were there would hide their categories.
    learnt = tmp_path_factory.mktemp("kubectl")
    base = [str(installed.kubectl), f"--kubeconfig={installed.admin_kubeconfig}"]

    def run(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [*base, f"--cache-dir={learnt}", *args]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)

    return run
