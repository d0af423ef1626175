"""The rights of an installation on a real API server: granted, checked, revoked."""

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


def grant(server: Server, own_installation: Installation, documents: list[dict[str, Any]]) -> None:
    """Create everything, and wait until the API server applies all rights of it."""
    last = f"{own_installation.release}-last"
    for document in (*documents, *_last(own_installation, last)):
        documents_created = server.create(
            document, document["metadata"].get("namespace", own_installation.namespace)
        )
        assert documents_created.accepted, documents_created.message
    # The authorizer learns of each type in the order in which it was written.
    eventually(lambda: allows(server, last, "get", "nodes"), "all wide roles count")
    eventually(
        lambda: allows(server, last, "get", "pods", ns=own_installation.namespace),
        "all other roles count",
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
    """Whether the API server would allow `user` to do that."""
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


def revoke(server: Server, own_installation: Installation) -> None:
    """Remove cluster-wide objects; namespaces end with the cluster."""
    for path in _WIDE:
        deleted = server.delete(
            f"{path}?labelSelector=app.kubernetes.io/instance={own_installation.release}"
        )
        assert deleted.accepted, deleted.message


def binding(
    name: str, role: str, user: str, *, kind: str = "RoleBinding", of: str = "ClusterRole"
) -> dict[str, Any]:
    """A binding of `kind` that grants `user` a role."""
    return _document(kind, name) | {
        "roleRef": {"apiGroup": cluster_roles.RBAC_GROUP, "kind": of, "name": role},
        "subjects": [rbac.user_subject(user)],
    }


def _last(own_installation: Installation, name: str) -> list[dict[str, Any]]:
    documents_created = [
        _document("ClusterRole", name) | {"rules": [_reading("nodes")]},
        binding(name, name, name, kind="ClusterRoleBinding"),
        _document("Role", name) | {"rules": [_reading("pods")]},
        binding(name, name, name, of="Role"),
    ]
    for document in documents_created:
        document["metadata"]["labels"] = own_installation.labels
    return documents_created


def _reading(plural: str) -> dict[str, Any]:
    return {"apiGroups": [""], "resources": [plural], "verbs": ["get"]}


def _document(kind: str, name: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    return {"apiVersion": f"{cluster_roles.RBAC_GROUP}/v1", "kind": kind, "metadata": metadata}
