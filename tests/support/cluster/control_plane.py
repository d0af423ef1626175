"""The control plane that tests share, and those that a test may break.

Names carry the pid of the test run. A run that was killed leaves its clusters to the
next one, which ends every cluster whose run is dead.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from tests.support.cluster import api_client
from windlass.api.kinds.registry import KINDS
from windlass_dev import directories
from windlass_dev.cluster import cluster
from windlass_dev.cluster.local_cluster import LocalCluster
from windlass_dev.programs import provider
from windlass_dev.progress import LineReporter

_OURS = re.compile(r"test-(\d+)(-.*)?")


def name(suffix: str = "") -> str:
    """A cluster name that belongs to this test run."""
    return f"test-{os.getpid()}-{suffix}" if suffix else f"test-{os.getpid()}"


def prepare() -> None:
    """Provide the programs before any test's timeout starts: a first build takes minutes."""
    stream = sys.__stderr__
    assert stream is not None
    provider.provide_tools(None, LineReporter(stream))


def remove_leftovers() -> None:
    """Remove the clusters of test runs that have ended."""
    for cluster_name in directories.cluster_names():
        match = _OURS.fullmatch(cluster_name)
        if match and not Path(f"/proc/{match[1]}").exists():
            cluster.down(cluster_name)


@contextlib.contextmanager
def running(
    suffix: str = "", *, extra_api_server_args: tuple[str, ...] = ()
) -> Iterator[LocalCluster]:
    """A control plane of this run, removed afterwards whatever happened to it."""
    chosen = name(suffix)
    try:
        yield cluster.up(chosen, extra_api_server_args=extra_api_server_args)
    finally:
        api_client.close_connections(chosen)
        cluster.down(chosen)


@contextlib.contextmanager
def fresh_namespace(local_cluster: LocalCluster, *, pods: bool = False) -> Iterator[str]:
    """A new namespace; the deletion of what acts in it is started, not awaited.

    Without running pods that is what windlass acts on. The rest stays: an API server spends
    more on the end of a namespace than most tests do in it.
    """
    chosen = f"t-{uuid.uuid4().hex[:10]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": chosen}}
    response = api_client.request(
        local_cluster, api_client.ADMIN, "POST", "/api/v1/namespaces", body
    )
    assert response.ok, f"namespace {chosen} was not made: {response}"
    try:
        yield chosen
    finally:
        for path in _owned_collections(chosen) if not pods else (f"/api/v1/namespaces/{chosen}",):
            # Its server may be down by now.
            with contextlib.suppress(OSError, http.client.HTTPException):
                api_client.request(local_cluster, api_client.ADMIN, "DELETE", path)


def _owned_collections(namespace: str) -> Iterator[str]:
    for kind in KINDS:
        if kind.namespaced:
            yield f"/apis/{kind.gvr.api_version}/namespaces/{namespace}/{kind.plural}"


def bind_cluster_admin(local_cluster: LocalCluster, group: str) -> None:
    """Bind `group` to cluster-admin."""
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"test-{group}"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
    }
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    response = local_cluster.api.request(path, method="POST", body=binding)
    assert response.ok or json.loads(response.text).get("reason") == "AlreadyExists", response
