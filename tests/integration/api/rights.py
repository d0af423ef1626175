"""The rights of an installation on a real API server: given, asked about, taken away."""

from __future__ import annotations

from typing import Any

from tests.integration.api.server import Server
from tests.support.processes.operator import eventually
from windlass.api.install import cluster_roles, rbac
from windlass.api.install.installation import Installation

_RBAC = f"/apis/{cluster_roles.RBAC_GROUP}/v1"
_POLICIES = "/apis/admissionregistration.k8s.io/v1"
_WIDE = (
    f"{_POLICIES}/validatingadmissionpolicybindings",
    f"{_POLICIES}/validatingadmissionpolicies",
    f"{_RBAC}/clusterrolebindings",
    f"{_RBAC}/clusterroles",
)


def give(server: Server, place: Installation, documents: list[dict[str, Any]]) -> None:
    """Create everything, and wait until the API server counts with all rights among it."""
    last = f"{place.release}-last"
    for document in (*documents, *_last(place, last)):
        made = server.create(document, document["metadata"].get("namespace", place.namespace))
        assert made.accepted, made.message
    # The authorizer learns of each type in the order in which it was written.
    eventually(lambda: allows(server, last, "get", "nodes"), "all wide roles count")
    eventually(
        lambda: allows(server, last, "get", "pods", ns=place.namespace), "all other roles count"
    )


def allows(
    server: Server,
    user: str,
    verb: str,
    resource: str,
    *,
    group: str = "",
    ns: str = "",
    name: str = "",
) -> bool:
    """Whether the API server would let `user` do that."""
    plural, _, subresource = resource.partition("/")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": plural,
        "subresource": subresource,
        "namespace": ns,
        "name": name,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    answer = server.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    assert answer.accepted, answer.message
    return bool(answer.body["status"]["allowed"])


def take_away(server: Server, place: Installation) -> None:
    """Remove what reaches over the whole cluster; namespaces end with it."""
    for path in _WIDE:
        gone = server.delete(f"{path}?labelSelector=app.kubernetes.io/instance={place.release}")
        assert gone.accepted, gone.message


def binding(
    name: str, role: str, user: str, *, kind: str = "RoleBinding", of: str = "ClusterRole"
) -> dict[str, Any]:
    """A binding of `kind` that gives `user` a role."""
    return _document(kind, name) | {
        "roleRef": {"apiGroup": cluster_roles.RBAC_GROUP, "kind": of, "name": role},
        "subjects": [rbac.user_subject(user)],
    }


def _last(place: Installation, name: str) -> list[dict[str, Any]]:
    made = [
        _document("ClusterRole", name) | {"rules": [_reading("nodes")]},
        binding(name, name, name, kind="ClusterRoleBinding"),
        _document("Role", name) | {"rules": [_reading("pods")]},
        binding(name, name, name, of="Role"),
    ]
    for document in made:
        document["metadata"]["labels"] = place.labels
    return made


def _reading(plural: str) -> dict[str, Any]:
    return {"apiGroups": [""], "resources": [plural], "verbs": ["get"]}


def _document(kind: str, name: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    return {"apiVersion": f"{cluster_roles.RBAC_GROUP}/v1", "kind": kind, "metadata": metadata}
