"""Rights of the network policy enforcer."""

from __future__ import annotations

from windlass_dev.cluster import components
from windlass_dev.cluster.cluster_state import ClusterState, NodeState
from windlass_dev.netpol import bootstrap


def test_it_reads_three_kinds_and_writes_none() -> None:
    """Its credentials allow reading only."""
    rules = bootstrap.reader_role()["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert resources == {"namespaces", "pods", "networkpolicies"}


def test_the_binding_is_for_the_user_of_its_kubeconfig() -> None:
    """Both name the same user."""
    (subject,) = bootstrap.reader_binding()["subjects"]
    state = ClusterState("x", {}, {}, node=NodeState(0, "", ""))
    assert components.identities(state)["policies"] == (subject["name"], ())
    assert (
        bootstrap.reader_binding()["roleRef"]["name"] == bootstrap.reader_role()["metadata"]["name"]
    )
