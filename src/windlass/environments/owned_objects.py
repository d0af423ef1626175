"""Every object that the operator itself keeps in an Environment's namespace.

    Namespace                labels with its owner and its Pod Security level
    RoleBinding              windlass-manager, windlass-applier
    ServiceAccount           default, without a token
    LimitRange               default-limits, before the quota that needs it
    ResourceQuota            default-quota
    NetworkPolicy            one per rule
    ConfigMap                windlass-inventory
    Secret                   windlass-release-chart, the output of helm

The names are the operator's for ever; a project that brings one of them is refused.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.environments import ownership
from windlass.environments.ownership import Ownership
from windlass.objects.names import Object

APPLIER_NAME = "windlass-applier"
MANAGER_NAME = "windlass-manager"
QUOTA_NAME = "default-quota"
LIMIT_RANGE_NAME = "default-limits"
RELEASE_TYPE = "catalyst.dev/release.v1"

_RBAC = "rbac.authorization.k8s.io"
_POD_SECURITY = "pod-security.kubernetes.io/"
_LEVELS = ("enforce", "warn", "audit")


@dataclass(frozen=True, slots=True)
class OperatorAccount:
    """Who the operator is, as the API server knows it."""

    username: str

    def as_object(self) -> Object:
        parts = self.username.split(":")
        if self.username.startswith("system:serviceaccount:") and len(parts) == 4:
            return {"kind": "ServiceAccount", "namespace": parts[2], "name": parts[3]}
        return {"kind": "User", "apiGroup": _RBAC, "name": self.username}


def namespace(name: str, owner: Ownership, pod_security: str) -> Object:
    """The Namespace, complete in its very first write."""
    levels = {
        f"{_POD_SECURITY}{level}{suffix}": value
        for level in _LEVELS
        for suffix, value in (("", pod_security), ("-version", "latest"))
    }
    labels = {**owner.labels, ownership.NAMESPACE_TYPE: ownership.ENVIRONMENT_TYPE, **levels}
    metadata: Object = {"name": name, "labels": labels, "annotations": owner.annotations}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def pod_security_labels(namespace: Object) -> dict[str, str]:
    """The Pod Security labels of a Namespace."""
    labels = namespace["metadata"].get("labels") or {}
    return {name: value for name, value in labels.items() if name.startswith(_POD_SECURITY)}


def manager_binding(place: str, owner: Ownership, role: str, operator: OperatorAccount) -> Object:
    """Gives the operator its rights in this one namespace, by the name of a ClusterRole."""
    return _binding(MANAGER_NAME, place, owner, role, operator.as_object())


def applier_binding(place: str, owner: Ownership, role: str) -> Object:
    """Gives the account that bundles are applied as its rights in this one namespace."""
    account = {"kind": "ServiceAccount", "namespace": place, "name": APPLIER_NAME}
    return _binding(APPLIER_NAME, place, owner, role, account)


def applier_user(place: str) -> str:
    """The account as the API server knows it; it exists in bindings only."""
    return f"system:serviceaccount:{place}:{APPLIER_NAME}"


def default_service_account(place: str, owner: Ownership) -> Object:
    """The account that pods run as; it has no rights and no token."""
    account = _object("v1", "ServiceAccount", "default", place, owner)
    return {**account, "automountServiceAccountToken": False}


def limit_range(place: str, owner: Ownership, container: Mapping[str, Mapping[str, str]]) -> Object:
    """Defaults for containers that say nothing."""
    row = {"type": "Container", **{name: dict(values) for name, values in container.items()}}
    limits = _object("v1", "LimitRange", LIMIT_RANGE_NAME, place, owner)
    return {**limits, "spec": {"limits": [row]}}


def resource_quota(place: str, owner: Ownership, hard: Mapping[str, str]) -> Object:
    """What all pods and objects together may use."""
    return {
        **_object("v1", "ResourceQuota", QUOTA_NAME, place, owner),
        "spec": {"hard": dict(hard)},
    }


def network_policy(place: str, owner: Ownership, name: str, spec: Object) -> Object:
    """One door, or the wall."""
    policy = _object("networking.k8s.io/v1", "NetworkPolicy", name, place, owner)
    return {**policy, "spec": spec}


def config_map(place: str, owner: Ownership, name: str, data: Mapping[str, str]) -> Object:
    """Something to remember."""
    return {**_object("v1", "ConfigMap", name, place, owner), "data": dict(data)}


def release_secret(place: str, owner: Ownership, name: str, data: Mapping[str, str]) -> Object:
    """What was rendered, for as long as it is wished; `data` is in base64."""
    return {
        **_object("v1", "Secret", name, place, owner),
        "type": RELEASE_TYPE,
        "data": dict(data),
    }


def _binding(name: str, place: str, owner: Ownership, role: str, subject: Object) -> Object:
    return {
        **_object(f"{_RBAC}/v1", "RoleBinding", name, place, owner),
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


def _object(api_version: str, kind: str, name: str, place: str, owner: Ownership) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": place,
            "labels": owner.labels,
            "annotations": owner.annotations,
        },
    }
