"""Roles and bindings as documents, each with a sentence on what it is for."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.api.install import Install
from windlass.objects.names import Object

RBAC_GROUP = "rbac.authorization.k8s.io"
PURPOSE = "windlass.dev/purpose"

READ = ("get", "list", "watch")
WRITE = ("create", "update", "patch", "delete", "deletecollection")


def cluster_role(place: Install, name: str, purpose: str, rules: list[Object]) -> Object:
    """A ClusterRole."""
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": metadata(place, name, purpose),
        "rules": rules,
    }


def metadata(place: Install, name: str, purpose: str) -> Object:
    """Name, labels and purpose."""
    return {"name": name, "labels": place.labels, "annotations": {PURPOSE: purpose}}


def rule(
    groups: Sequence[str],
    resources: Sequence[str],
    verbs: Sequence[str],
    names: Sequence[str] = (),
) -> Object:
    """One right; with `names` over those objects alone."""
    found: Object = {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}
    return found | {"resourceNames": list(names)} if names else found


def bound(role: Object, subjects: Sequence[Object]) -> list[Object]:
    """The role and, if there are subjects, its binding."""
    if not subjects:
        return [role]
    about = role["metadata"]
    binding = {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": f"{role['kind']}Binding",
        "metadata": about | {"labels": dict(about["labels"])},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": role["kind"], "name": about["name"]},
        "subjects": [dict(subject) for subject in subjects],
    }
    binding["metadata"]["annotations"] = {PURPOSE: f"Gives the operator the {role['kind']} above."}
    return [role, binding]


def aggregated(role: Object, *names: str) -> Object:
    """The role as a part of the cluster's own roles for people."""
    for name in names:
        role["metadata"]["labels"][f"{RBAC_GROUP}/aggregate-to-{name}"] = "true"
    return role
