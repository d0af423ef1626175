"""Tests of what the enforcer may do."""

from __future__ import annotations

from windlass.dev import components
from windlass.dev.node.policies import access
from windlass.dev.state import Node, State


def test_it_reads_three_kinds_and_writes_none() -> None:
    """Whoever takes it over can look, and nothing else."""
    rules = access.role()["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert resources == {"namespaces", "pods", "networkpolicies"}


def test_the_binding_is_for_the_part_of_the_cluster() -> None:
    """Its kubeconfig and its rights name the same user."""
    (subject,) = access.binding()["subjects"]
    state = State("x", {}, {}, node=Node(0, "", ""))
    assert components.identities(state)["policies"] == (subject["name"], ())
    assert access.binding()["roleRef"]["name"] == access.role()["metadata"]["name"]
