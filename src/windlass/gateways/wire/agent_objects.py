"""The objects owned by an IgnitionSync: names, labels and owner, and the Role of its agents (2.7).

Every one of them has the CR as owner and both labels, so it is deleted with the CR and found
by one watch. The names follow from the CR, or from the pod that reports through the object.

The Role (GDS-7) lets agents read the metadata ConfigMap and write the status
ConfigMaps of pods, each by its name. A rule without names would mean every ConfigMap of the
namespace, so it is never built. No rights on Secrets, pods or events, none to create
anything.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from windlass.gateways.wire.routing import ANNOTATION_PREFIX
from windlass.objects.names import Object

FIELD_MANAGER = "windlass-gateways"
CR_LABEL = f"{ANNOTATION_PREFIX}cr-name"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY_VALUE = "ignition-sync-controller"
OWNED_SELECTOR = f"{MANAGED_BY_LABEL}={MANAGED_BY_VALUE}"

_STATUS_PREFIX = "ignition-sync-status-"
_UID_DIGITS = 10


@dataclass(frozen=True, slots=True)
class ObjectOwner:
    """The CR that owns an object."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def owner_reference(self) -> Object:
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
        }


def metadata_name(cr: str) -> str:
    """The ConfigMap that agents watch."""
    return f"ignition-sync-metadata-{cr}"


def summary_name(cr: str) -> str:
    """The summary ConfigMap that users read: one line for each pod."""
    return f"{_STATUS_PREFIX}{cr}"


def status_name(pod_uid: str) -> str:
    """The ConfigMap that the agent of one pod reports through."""
    return f"{_STATUS_PREFIX}{pod_uid.replace('-', '').lower()[:_UID_DIGITS]}"


def role_name(cr: str) -> str:
    """The Role of the agents, and its RoleBinding."""
    return f"ignition-sync-agent-{cr}"


def config_map(owner: ObjectOwner, name: str, data: Mapping[str, str] | None = None) -> Object:
    """A ConfigMap; without `data` the controller owns none of its keys, so the agent can."""
    obj: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": object_metadata(owner, name),
    }
    return obj if data is None else {**obj, "data": dict(data)}


def object_metadata(owner: ObjectOwner, name: str) -> Object:
    """The metadata of an owned object."""
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": {CR_LABEL: owner.name, MANAGED_BY_LABEL: MANAGED_BY_VALUE},
        "ownerReferences": [owner.owner_reference],
    }


def owner_name(obj: Object) -> str:
    """The name of the CR in an object's label; empty if there is none."""
    labels = (obj.get("metadata") or {}).get("labels") or {}
    return str(labels.get(CR_LABEL) or "")


def is_status_object(obj: Object, owner: ObjectOwner) -> bool:
    """Whether an object was created for a pod of this CR; anyone can write a label, so by uid."""
    meta = obj.get("metadata") or {}
    references = meta.get("ownerReferences") or []
    name = str(meta.get("name", ""))
    return name.startswith(_STATUS_PREFIX) and any(
        reference.get("uid") == owner.uid for reference in references
    )


_RBAC_GROUP = "rbac.authorization.k8s.io"
_READ_VERBS = ("get", "list", "watch")
_REPORT_VERBS = ("get", "patch")


def agent_role(owner: ObjectOwner, status_names: Iterable[str]) -> Object:
    """The Role of the agents."""
    rules = [_config_map_rule(_READ_VERBS, [metadata_name(owner.name)])]
    names = sorted(set(status_names))
    if names:
        rules.append(_config_map_rule(_REPORT_VERBS, names))
    return _rbac_object(owner, "Role", {"rules": rules})


def agent_role_binding(owner: ObjectOwner, accounts: Iterable[str]) -> Object:
    """Its RoleBinding to the service accounts of the gateways' pods."""
    subjects = [
        {"kind": "ServiceAccount", "name": account, "namespace": owner.namespace}
        for account in sorted(set(accounts))
    ]
    reference = {"apiGroup": _RBAC_GROUP, "kind": "Role", "name": role_name(owner.name)}
    body: Object = {"roleRef": reference}
    return _rbac_object(owner, "RoleBinding", body | ({"subjects": subjects} if subjects else {}))


def _rbac_object(owner: ObjectOwner, kind: str, body: Object) -> Object:
    metadata = object_metadata(owner, role_name(owner.name))
    return {"apiVersion": f"{_RBAC_GROUP}/v1", "kind": kind, "metadata": metadata, **body}


def _config_map_rule(verbs: tuple[str, ...], names: list[str]) -> Object:
    assert names, "a rule without names would mean every ConfigMap"
    return {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": names,
        "verbs": list(verbs),
    }
