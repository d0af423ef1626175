"""What the server assigns in the body of built-in kinds, kind by kind.

A rule works on the fresh top-level map of the result and replaces what it changes; the
maps below belong to the input and are copied before a key goes. *Allocated* fields go
only if the object came from a server (it carries a uid or a resourceVersion) and no
manager outside the control plane claims them; a cleaned object has neither mark, so
cleaning it again finds nothing allocated.

Nothing is cut out of an item of an atomic list: the list is one value to server-side apply,
so a file without the `status` of a StatefulSet's claim templates would conflict with whoever
owns them, although that status never changes.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.objects.names import JSON, Object
from windlass.reverser.decide import managed_fields
from windlass.reverser.decide.managed_fields import FieldSet

Type = tuple[str, str]
"""Group and kind."""

_PVC: Type = ("", "PersistentVolumeClaim")
_JOB: Type = ("batch", "Job")
_NAMESPACE: Type = ("", "Namespace")

JOB_LABELS = frozenset(
    (
        "controller-uid",
        "job-name",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-name",
    )
)
SERVER_LABELS: dict[Type, frozenset[str]] = {
    _NAMESPACE: frozenset(("kubernetes.io/metadata.name",)),
}
SERVER_ANNOTATIONS: dict[Type, frozenset[str]] = {
    _PVC: frozenset(
        (
            "pv.kubernetes.io/bind-completed",
            "pv.kubernetes.io/bound-by-controller",
            "volume.kubernetes.io/storage-provisioner",
            "volume.beta.kubernetes.io/storage-provisioner",
            "volume.kubernetes.io/selected-node",
        )
    ),
}
_SERVICE_ALLOCATED = (
    "clusterIP",
    "clusterIPs",
    "ipFamilies",
    "ipFamilyPolicy",
    "healthCheckNodePort",
)


def apply(type_: Type, result: Object, metadata: Object) -> None:
    """Applies the rule of `type_` to `result`; `metadata` is that of the input."""
    rule = _RULES.get(type_)
    if rule is not None:
        rule(result, metadata)


def _came_from_server(metadata: Object) -> bool:
    return "uid" in metadata or "resourceVersion" in metadata


def _drop(result: Object, parent: str, *keys: str) -> None:
    """Removes `keys` from the map at `parent`, on a copy."""
    body = result.get(parent)
    if isinstance(body, dict) and any(key in body for key in keys):
        result[parent] = {key: value for key, value in body.items() if key not in keys}


def _drop_allocated(result: Object, metadata: Object, *keys: str) -> None:
    if _came_from_server(metadata):
        sets = managed_fields.outside_sets(metadata)
        free = [key for key in keys if not managed_fields.claimed(sets, "f:spec", f"f:{key}")]
        _drop(result, "spec", *free)


def _service(result: Object, metadata: Object) -> None:
    spec = result.get("spec")
    if not isinstance(spec, dict):
        return
    if _came_from_server(metadata):
        sets = managed_fields.outside_sets(metadata)
        spec = result["spec"] = {
            key: value
            for key, value in spec.items()
            if key not in _SERVICE_ALLOCATED
            or (key == "clusterIP" and value == "None")
            or managed_fields.claimed(sets, "f:spec", f"f:{key}")
        }
        if isinstance(spec.get("ports"), list):
            spec["ports"] = [_port(port, sets) for port in spec["ports"]]
    if spec.get("clusterIP") == "None":
        _drop(result, "spec", "clusterIPs")


def _port(port: JSON, sets: list[FieldSet]) -> JSON:
    if not isinstance(port, dict) or "nodePort" not in port:
        return port
    path = ("f:spec", "f:ports", managed_fields.port_key(port), "f:nodePort")
    if managed_fields.claimed(sets, *path):
        return port
    return {key: value for key, value in port.items() if key != "nodePort"}


def _persistent_volume_claim(result: Object, metadata: Object) -> None:
    _drop_allocated(result, metadata, "volumeName")


def _persistent_volume(result: Object, metadata: Object) -> None:
    spec = result.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("claimRef"), dict):
        result["spec"] = spec = dict(spec)
        _drop(spec, "claimRef", "uid", "resourceVersion")


def _service_account(result: Object, metadata: Object) -> None:
    secrets = result.get("secrets")
    if not isinstance(secrets, list) or not _came_from_server(metadata):
        return
    sets = managed_fields.outside_sets(metadata)
    kept = [
        item
        for item in secrets
        if isinstance(item, dict)
        and managed_fields.claimed(sets, "f:secrets", managed_fields.name_key(item))
    ]
    if kept:
        result["secrets"] = kept
    else:
        del result["secrets"]


def _namespace(result: Object, metadata: Object) -> None:
    spec = result.get("spec")
    if isinstance(spec, dict) and spec.get("finalizers") == ["kubernetes"]:
        _drop(result, "spec", "finalizers")


def _node(result: Object, metadata: Object) -> None:
    _drop(result, "spec", "podCIDR", "podCIDRs", "providerID")


def _pod(result: Object, metadata: Object) -> None:
    _drop_allocated(result, metadata, "nodeName", "priority")


def _job(result: Object, metadata: Object) -> None:
    spec = result.get("spec")
    if isinstance(spec, dict) and spec.get("manualSelector") is True:
        return
    _drop_job_labels(result)
    if isinstance(spec, dict):
        result["spec"] = spec = {key: value for key, value in spec.items() if key != "selector"}
        template = spec.get("template")
        if isinstance(template, dict):
            spec["template"] = template = dict(template)
            _drop_job_labels(template)


def _drop_job_labels(holder: Object) -> None:
    """Removes the labels the Job controller adds; a map left empty by that goes too."""
    metadata = holder.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(labels, dict):
        return
    kept = {key: value for key, value in labels.items() if key not in JOB_LABELS}
    if len(kept) != len(labels):
        rest = {key: value for key, value in metadata.items() if key != "labels"}
        holder["metadata"] = rest | {"labels": kept} if kept else rest


def _cluster_role(result: Object, metadata: Object) -> None:
    if result.get("aggregationRule") is not None:
        result.pop("rules", None)


_RULES: dict[Type, Callable[[Object, Object], None]] = {
    ("", "Service"): _service,
    _PVC: _persistent_volume_claim,
    ("", "PersistentVolume"): _persistent_volume,
    ("", "ServiceAccount"): _service_account,
    _NAMESPACE: _namespace,
    ("", "Node"): _node,
    ("", "Pod"): _pod,
    _JOB: _job,
    ("rbac.authorization.k8s.io", "ClusterRole"): _cluster_role,
}
