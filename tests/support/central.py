"""A repository in the install namespace, the only place that cluster rules may feed."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

from tests.support.gitserver import Served
from tests.support.mirrored import GROUP, Mirrored
from tests.support.operator import eventually
from tests.support.people import SwiftMirrored, admin_of
from windlass_dev.cluster.local_cluster import LocalCluster

NAMESPACE = "windlass-system"
RULE = "central"


@contextlib.contextmanager
def central(desk: LocalCluster, served: Served) -> Iterator[Mirrored]:
    """A repository of its own; its objects, and the cluster rule, are gone afterwards."""
    found = SwiftMirrored(desk, served, NAMESPACE, f"central-{uuid.uuid4().hex[:8]}.git")
    try:
        yield found
    finally:
        person = admin_of(found)
        for kind, name in (
            ("clusterwatchrule", RULE),
            ("gitdestination", "destination"),
            ("gitrepoconfig", "repo"),
        ):
            person.ask("DELETE", person.path(kind, name))


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


def configured(found: Mirrored, *items: dict[str, Any]) -> None:
    """Apply repository, destination and cluster rule; wait until they work."""
    found.admin.apply(
        found.secret(), found.repo_config(), found.git_destination(), cluster_rule(*items)
    )
    found.await_condition("clusterwatchrule", RULE, "Ready")
    eventually(lambda: _states(found) == {"synced"}, "every stream of the rule synced")


def _states(found: Mirrored) -> set[str]:
    """How the streams of the rule are; the destination is synced before it has any."""
    rows = found.admin.get("clusterwatchrule", RULE).get("status", {}).get("resolved", ())
    return {row["state"] for row in rows}
