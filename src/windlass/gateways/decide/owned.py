"""Names and heads of the objects that are kept for an IgnitionSync (2.7).

Every one of them has the CR as owner and both labels, so it goes with the CR and is found
by one watch. The names follow from the CR, or from the pod that reports through the object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.gateways.decide.routing import PREFIX
from windlass.objects.names import Object

MANAGER = "windlass-gateways"
CR_LABEL = f"{PREFIX}cr-name"
MANAGED_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "ignition-sync-controller"
SELECTOR = f"{MANAGED_LABEL}={MANAGED_BY}"

_STATUS = "ignition-sync-status-"
_UID_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Owner:
    """The CR that an object is kept for."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def reference(self) -> Object:
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
    """The ConfigMap that people read: one line for each pod."""
    return f"{_STATUS}{cr}"


def status_name(pod_uid: str) -> str:
    """The ConfigMap that the agent of one pod reports through."""
    return f"{_STATUS}{pod_uid.replace('-', '').lower()[:_UID_DIGITS]}"


def rights_name(cr: str) -> str:
    """The Role of the agents, and its RoleBinding."""
    return f"ignition-sync-agent-{cr}"


def config_map(owner: Owner, name: str, data: Mapping[str, str] | None = None) -> Object:
    """A ConfigMap; without `data` we own none of its keys."""
    wanted: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": head(owner, name)}
    return wanted if data is None else {**wanted, "data": dict(data)}


def head(owner: Owner, name: str) -> Object:
    """The metadata of an owned object."""
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": {CR_LABEL: owner.name, MANAGED_LABEL: MANAGED_BY},
        "ownerReferences": [owner.reference],
    }


def cr_of(obj: Object) -> str:
    """The name of the CR that an object says it is kept for; empty if it says none."""
    labels = (obj.get("metadata") or {}).get("labels") or {}
    return str(labels.get(CR_LABEL) or "")


def is_status_object(obj: Object, owner: Owner) -> bool:
    """Whether an object was made for a pod of this CR; a label alone anybody can write."""
    meta = obj.get("metadata") or {}
    owners = meta.get("ownerReferences") or []
    name = str(meta.get("name", ""))
    return name.startswith(_STATUS) and any(one.get("uid") == owner.uid for one in owners)
