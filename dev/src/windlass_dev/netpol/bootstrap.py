"""Bootstrap of the enforcer: read access for its user, and its readiness marker.

`cluster` grants the access when the API server is ready; the enforcer writes the marker,
a file with its pid, and `launch` reads it. The marker of a dead process counts as absent,
though its chains are still in the kernel.
"""

from __future__ import annotations

import os
from pathlib import Path

from windlass.base import files
from windlass.base.errors import WindlassError
from windlass.objects.names import Object
from windlass_dev.cluster.http_probe import ApiProbe
from windlass_dev.node.commands import POLICIES_USER as USER

_CONFLICT = 409
_GROUP = "rbac.authorization.k8s.io"
_VERBS = ["get", "list", "watch"]


def grant_access(api: ApiProbe) -> None:
    """Create the ClusterRole and its binding; existing ones are left unchanged."""
    for resource, body in (
        ("clusterroles", reader_role()),
        ("clusterrolebindings", reader_binding()),
    ):
        response = api.request(f"/apis/{_GROUP}/v1/{resource}", method="POST", body=body)
        if not response.ok and response.status != _CONFLICT:
            raise WindlassError(
                "ComponentFailed", f"could not grant access to {USER}: {response.text[:300]}"
            )


def reader_role() -> Object:
    """The ClusterRole: read access to namespaces, pods and NetworkPolicies."""
    return {
        **_object_head("ClusterRole"),
        "rules": [
            {"apiGroups": [""], "resources": ["namespaces", "pods"], "verbs": _VERBS},
            {
                "apiGroups": ["networking.k8s.io"],
                "resources": ["networkpolicies"],
                "verbs": _VERBS,
            },
        ],
    }


def reader_binding() -> Object:
    """The ClusterRoleBinding of the enforcer's user."""
    return {
        **_object_head("ClusterRoleBinding"),
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": USER},
        "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": USER}],
    }


def _object_head(kind: str) -> Object:
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {"name": USER}}


def mark_in_force(directory: Path) -> None:
    """Write the marker: the policies of the API server are in force."""
    files.write_atomically(_marker_file(directory), str(os.getpid()).encode())


def clear_in_force(directory: Path) -> None:
    """Remove the marker."""
    _marker_file(directory).unlink(missing_ok=True)


def is_in_force(directory: Path, pid: int) -> bool:
    """Whether the enforcer with this pid has written the marker."""
    try:
        return _marker_file(directory).read_text() == str(pid)
    except FileNotFoundError:
        return False


def _marker_file(directory: Path) -> Path:
    return directory / "node" / "policies-in-force"
