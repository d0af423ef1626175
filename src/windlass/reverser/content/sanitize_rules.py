"""Server-assigned fields in the body of built-in kinds, kind by kind.

A rule works on the fresh top-level map of the result and replaces what it changes; the
maps below belong to the input and are copied before a key is removed. *Allocated* fields are
removed only if the object came from a server (it carries a uid or a resourceVersion) and no
manager outside the control plane claims them; a sanitized object has neither of the two, so
sanitizing it again finds nothing allocated.

Who claims a field is read from `metadata.managedFields`: the API server records, per field
manager, the set of fields it set. A value a person or tool wrote is in such a set; a value the
server's own allocators filled in is in none, or only in that of a control plane component. A
field is *claimed* if a manager outside the control plane owns exactly that field (owning a parent
proves nothing: an empty parent is also recorded).

Nothing is cut out of an item of an atomic list: the list is one value to server-side apply,
so a file without the `status` of a StatefulSet's claim templates would conflict with whoever
owns them, although that status never changes.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.api.install import webhook
from windlass.objects.names import JSON, Object

CONTROL_PLANE_MANAGERS = frozenset(
    (
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "cloud-controller-manager",
        "kubelet",
        "openshift-controller-manager",
    )
)

FieldSet = dict[str, JSON]


def user_field_sets(metadata: Object) -> list[FieldSet]:
    """The field sets of all managers that are not part of the control plane."""
    entries = metadata.get("managedFields")
    if not isinstance(entries, list):
        return []
    return [
        entry["fieldsV1"]
        for entry in entries
        if isinstance(entry, dict)
        and entry.get("manager") not in CONTROL_PLANE_MANAGERS
        and isinstance(entry.get("fieldsV1"), dict)
    ]


def is_claimed(sets: list[FieldSet], *path: str) -> bool:
    """True if one of `sets` holds the field at `path` (`f:` names, `k:` list keys)."""
    return any(_contains_path(fields, path) for fields in sets)


def port_key(port: Object) -> str:
    """The list key of a Service port, as the API server writes it."""
    return f'k:{{"port":{port.get("port")},"protocol":"{port.get("protocol", "TCP")}"}}'


def name_key(item: Object) -> str:
    """The key of an item in a list that is keyed by name, as the API server writes it."""
    return f'k:{{"name":"{item.get("name")}"}}'


def _contains_path(fields: JSON, path: tuple[str, ...]) -> bool:
    for step in path:
        if not isinstance(fields, dict) or step not in fields:
            return False
        fields = fields[step]
    return True


GroupKind = tuple[str, str]
"""Group and kind."""

_PVC: GroupKind = ("", "PersistentVolumeClaim")
_JOB: GroupKind = ("batch", "Job")
_NAMESPACE: GroupKind = ("", "Namespace")

JOB_LABELS = frozenset(
    (
        "controller-uid",
        "job-name",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-name",
    )
)
SERVER_LABELS: dict[GroupKind, frozenset[str]] = {
    _NAMESPACE: frozenset(("kubernetes.io/metadata.name",)),
}
SERVER_ANNOTATIONS: dict[GroupKind, frozenset[str]] = {
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


def apply_kind_rule(type_: GroupKind, result: Object, metadata: Object) -> None:
    """Apply the rule of `type_`, if there is one, to `result`; `metadata` is that of the input."""
    rule = _RULES.get(type_)
    if rule is not None:
        rule(result, metadata)


def _came_from_server(metadata: Object) -> bool:
    return "uid" in metadata or "resourceVersion" in metadata


def _drop(result: Object, parent: str, *keys: str) -> None:
    """Remove `keys` from a copy of the map at `parent`."""
    body = result.get(parent)
    if isinstance(body, dict) and any(key in body for key in keys):
        result[parent] = {key: value for key, value in body.items() if key not in keys}


def _drop_allocated(result: Object, metadata: Object, *keys: str) -> None:
    """Remove the fields `keys` of the spec that the server allocated and no user claims."""
    if _came_from_server(metadata):
        sets = user_field_sets(metadata)
        unclaimed = [key for key in keys if not is_claimed(sets, "f:spec", f"f:{key}")]
        _drop(result, "spec", *unclaimed)


def _service(result: Object, metadata: Object) -> None:
    spec = result.get("spec")
    if not isinstance(spec, dict):
        return
    if _came_from_server(metadata):
        sets = user_field_sets(metadata)
        spec = result["spec"] = {
            key: value
            for key, value in spec.items()
            if key not in _SERVICE_ALLOCATED
            # A headless Service asked for no address.
            or (key == "clusterIP" and value == "None")
            or is_claimed(sets, "f:spec", f"f:{key}")
        }
        if isinstance(spec.get("ports"), list):
            spec["ports"] = [_port(port, sets) for port in spec["ports"]]
    if spec.get("clusterIP") == "None":
        _drop(result, "spec", "clusterIPs")


def _port(port: JSON, sets: list[FieldSet]) -> JSON:
    if not isinstance(port, dict) or "nodePort" not in port:
        return port
    path = ("f:spec", "f:ports", port_key(port), "f:nodePort")
    if is_claimed(sets, *path):
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
    sets = user_field_sets(metadata)
    claimed = [
        item
        for item in secrets
        if isinstance(item, dict) and is_claimed(sets, "f:secrets", name_key(item))
    ]
    if claimed:
        result["secrets"] = claimed
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
        # Selector and labels are the user's own.
        return
    _drop_job_labels(result)
    if isinstance(spec, dict):
        result["spec"] = spec = {key: value for key, value in spec.items() if key != "selector"}
        template = spec.get("template")
        if isinstance(template, dict):
            spec["template"] = template = dict(template)
            _drop_job_labels(template)


def _drop_job_labels(holder: Object) -> None:
    """Remove the labels that the Job controller adds, and the map if that leaves it empty."""
    metadata = holder.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(labels, dict):
        return
    user_labels = {key: value for key, value in labels.items() if key not in JOB_LABELS}
    if len(user_labels) != len(labels):
        rest = {key: value for key, value in metadata.items() if key != "labels"}
        holder["metadata"] = rest | {"labels": user_labels} if user_labels else rest


def _cluster_role(result: Object, metadata: Object) -> None:
    if result.get("aggregationRule") is not None:
        # The controller fills the rules from the aggregated roles.
        result.pop("rules", None)


def _validating_webhooks(result: Object, metadata: Object) -> None:
    webhooks = result.get("webhooks")
    if isinstance(webhooks, list):
        result["webhooks"] = [_without_secret_path(item) for item in webhooks]


def _without_secret_path(item: JSON) -> JSON:
    """The webhook of any windlass as it was installed: the operator fills in the secret path."""
    client = item.get("clientConfig") if isinstance(item, dict) else None
    if not isinstance(client, dict) or item.get("name") != webhook.WEBHOOK_NAME:
        return item
    client = dict(client)
    _drop(client, "service", "path")
    if isinstance(client.get("url"), str):
        client["url"] = client["url"].partition(webhook.PATH_PREFIX)[0]
    return item | {"clientConfig": client}


_RULES: dict[GroupKind, Callable[[Object, Object], None]] = {
    ("", "Service"): _service,
    _PVC: _persistent_volume_claim,
    ("", "PersistentVolume"): _persistent_volume,
    ("", "ServiceAccount"): _service_account,
    _NAMESPACE: _namespace,
    ("", "Node"): _node,
    ("", "Pod"): _pod,
    _JOB: _job,
    ("rbac.authorization.k8s.io", "ClusterRole"): _cluster_role,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _validating_webhooks,
}
