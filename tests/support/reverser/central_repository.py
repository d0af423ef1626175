"""A repository in the install namespace, the only namespace that cluster rules may feed."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

from tests.support.git.http_server import RunningGitServer
from tests.support.processes.operator import eventually
from tests.support.reverser.api_users import ApiMirroredNamespace, admin_user
from tests.support.reverser.mirrored_namespace import GROUP, MirroredNamespace
from windlass_dev.cluster.local_cluster import LocalCluster

NAMESPACE = "windlass-system"
RULE = "central"


@contextlib.contextmanager
def central_repository(
    cluster: LocalCluster, served: RunningGitServer
) -> Iterator[MirroredNamespace]:
    """A repository of its own; its objects, and the cluster rule, are gone afterwards."""
    mirrored = ApiMirroredNamespace(
        cluster, served, NAMESPACE, f"central-{uuid.uuid4().hex[:8]}.git"
    )
    try:
        yield mirrored
    finally:
        admin = admin_user(mirrored)
        for kind, name in (
            ("clusterwatchrule", RULE),
            ("gitdestination", "destination"),
            ("gitrepoconfig", "repo"),
        ):
            admin.request("DELETE", admin.path(kind, name))


def cluster_rule(*items: dict[str, Any]) -> dict[str, Any]:
    """A ClusterWatchRule that feeds the central destination."""
    return {
        "apiVersion": GROUP,
        "kind": "ClusterWatchRule",
        "metadata": {"name": RULE},
        "spec": {
            "destinationRef": {"name": "destination", "namespace": NAMESPACE},
            "rules": list(items),
        },
    }


def configure_mirror(mirrored: MirroredNamespace, *items: dict[str, Any]) -> None:
    """Apply repository, destination and cluster rule; wait until they work."""
    mirrored.admin.apply(
        mirrored.secret(), mirrored.repo_config(), mirrored.git_destination(), cluster_rule(*items)
    )
    mirrored.await_condition("clusterwatchrule", RULE, "Ready")
    eventually(lambda: _states(mirrored) == {"synced"}, "every stream of the rule synced")
    # Such a stream may still be that of the earlier rule of this name, which fed the earlier
    # destination; this one is synced only once it has a snapshot of its own.
    mirrored.await_condition("gitdestination", "destination", "Synced", type_="Synced")


def _states(mirrored: MirroredNamespace) -> set[str]:
    """How the streams of the rule are; the destination may be synced before it has any."""
    rows = mirrored.admin.get("clusterwatchrule", RULE).get("status", {}).get("resolved", ())
    return {row["state"] for row in rows}
