"""What starting the enforcer takes: read access for its user, and its readiness marker.

The marker is a file with the enforcer's pid. One of a process that has died counts as
none, though its chains are still there.
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
    """Make the role and its binding; again changes nothing."""
    for resource, body in (
        ("clusterroles", reader_role()),
        ("clusterrolebindings", reader_binding()),
    ):
        answer = api.request(f"/apis/{_GROUP}/v1/{resource}", method="POST", body=body)
        if not answer.ok and answer.status != _CONFLICT:
            raise WindlassError(
                "ComponentFailed", f"{USER} could not be let in: {answer.text[:300]}"
            )


def reader_role() -> Object:
    """What may be read."""
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
    """Who may read it."""
    return {
        **_object_head("ClusterRoleBinding"),
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": USER},
        "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": USER}],
    }


def _object_head(kind: str) -> Object:
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {"name": USER}}


def mark_in_force(directory: Path) -> None:
    """Say that what the server last told is in force."""
    files.write_atomically(_marker_file(directory), str(os.getpid()).encode())


def clear_in_force(directory: Path) -> None:
    """Say that it is not."""
    _marker_file(directory).unlink(missing_ok=True)


def is_in_force(directory: Path, pid: int) -> bool:
    """Whether the enforcer with this number says so."""
    try:
        return _marker_file(directory).read_text() == str(pid)
    except FileNotFoundError:
        return False


def _marker_file(directory: Path) -> Path:
    return directory / "node" / "policies-in-force"
