"""Lets the enforcer read what it needs; it writes nothing."""

from __future__ import annotations

from windlass.base.errors import WindlassError
from windlass.dev.node.commands import POLICIES_USER as USER
from windlass.dev.probe import ApiProbe
from windlass.objects.json import Object

_CONFLICT = 409
_GROUP = "rbac.authorization.k8s.io"
_VERBS = ["get", "list", "watch"]


def grant(api: ApiProbe) -> None:
    """Make the role and its binding; again changes nothing."""
    for resource, body in (("clusterroles", role()), ("clusterrolebindings", binding())):
        answer = api.ask(f"/apis/{_GROUP}/v1/{resource}", method="POST", body=body)
        if not answer.ok and answer.status != _CONFLICT:
            raise WindlassError(
                "ComponentFailed", f"{USER} could not be let in: {answer.text[:300]}"
            )


def role() -> Object:
    """What may be read."""
    return {
        **_head("ClusterRole"),
        "rules": [
            {"apiGroups": [""], "resources": ["namespaces", "pods"], "verbs": _VERBS},
            {
                "apiGroups": ["networking.k8s.io"],
                "resources": ["networkpolicies"],
                "verbs": _VERBS,
            },
        ],
    }


def binding() -> Object:
    """Who may read it."""
    return {
        **_head("ClusterRoleBinding"),
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": USER},
        "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": USER}],
    }


def _head(kind: str) -> Object:
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {"name": USER}}
