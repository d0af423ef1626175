"""The control plane that tests share, and those that a test may break.

Names carry the pid of the test run. A run that was killed leaves its clusters to the
next one, which ends every cluster whose run is dead.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from windlass.dev import binaries, cluster, places
from windlass.dev.desk import Desk
from windlass.dev.progress import Lines

_OURS = re.compile(r"test-(\d+)(-.*)?")


def name(suffix: str = "") -> str:
    """A cluster name that belongs to this test run."""
    return f"test-{os.getpid()}-{suffix}" if suffix else f"test-{os.getpid()}"


def prepare() -> None:
    """Have the programs at hand before any test's clock runs: a first build takes minutes."""
    stream = sys.__stderr__
    assert stream is not None
    binaries.locate(None, Lines(stream))


def remove_leftovers() -> None:
    """End the clusters of test runs that are no more."""
    for found in places.names():
        match = _OURS.fullmatch(found)
        if match and not Path(f"/proc/{match[1]}").exists():
            cluster.down(found)


@contextlib.contextmanager
def running(suffix: str = "", *, extra_api_server_args: tuple[str, ...] = ()) -> Iterator[Desk]:
    """A control plane of this run that is gone afterwards, whatever happened to it."""
    chosen = name(suffix)
    try:
        yield cluster.up(chosen, extra_api_server_args=extra_api_server_args)
    finally:
        cluster.down(chosen)


@contextlib.contextmanager
def fresh_namespace(desk: Desk) -> Iterator[str]:
    """A namespace nobody used before; its end is begun, not awaited."""
    chosen = f"t-{uuid.uuid4().hex[:10]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": chosen}}
    made = desk.api.ask("/api/v1/namespaces", method="POST", body=body)
    assert made.ok, f"namespace {chosen} was not made: {made}"
    try:
        yield chosen
    finally:
        desk.api.ask(f"/api/v1/namespaces/{chosen}", method="DELETE")


def bind_cluster_admin(desk: Desk, group: str) -> None:
    """Let everybody in `group` do everything on `desk`."""
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
    made = desk.api.ask(path, method="POST", body=binding)
    assert made.ok or json.loads(made.text).get("reason") == "AlreadyExists", made
