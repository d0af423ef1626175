"""Builds every object that the operator itself keeps in an Environment's namespace.

    Namespace                labels with its owner and its Pod Security level
    RoleBinding              windlass-manager, windlass-applier
    ServiceAccount           default, without a token
    LimitRange               default-limits, before the quota that needs it
    ResourceQuota            default-quota
    NetworkPolicy            one per rule
    ConfigMap                windlass-inventory
    Secret                   windlass-release-chart, the output of helm

The names are reserved for the operator; a bundle that contains one of them is refused.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.api.install.environment_objects import (
    APPLIER_NAME,
    DEFAULT_ACCOUNT,
    ENVIRONMENT_TYPE,
    LIMIT_RANGE_NAME,
    MANAGER_NAME,
    NAMESPACE_TYPE,
    QUOTA_NAME,
    RELEASE_TYPE,
)
from windlass.environments.ownership import Ownership
from windlass.objects.names import Object

_RBAC = "rbac.authorization.k8s.io"
_POD_SECURITY = "pod-security.kubernetes.io/"
_LEVELS = ("enforce", "warn", "audit")


@dataclass(frozen=True, slots=True)
class OperatorAccount:
    """The user name of the operator at the API server."""

    username: str

    def as_object(self) -> Object:
        """The subject of a RoleBinding."""
        parts = self.username.split(":")
        if self.username.startswith("system:serviceaccount:") and len(parts) == 4:
            return {"kind": "ServiceAccount", "namespace": parts[2], "name": parts[3]}
        return {"kind": "User", "apiGroup": _RBAC, "name": self.username}


def namespace(name: str, owner: Ownership, pod_security: str) -> Object:
    """The Namespace, created with all labels by its first write, so it is never unprotected."""
    levels = {
        f"{_POD_SECURITY}{level}{suffix}": value
        for level in _LEVELS
        for suffix, value in (("", pod_security), ("-version", "latest"))
    }
    labels = {**owner.labels, NAMESPACE_TYPE: ENVIRONMENT_TYPE, **levels}
    metadata: Object = {"name": name, "labels": labels, "annotations": owner.annotations}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def pod_security_labels(namespace: Object) -> dict[str, str]:
    """The Pod Security labels of a Namespace."""
    labels = namespace["metadata"].get("labels") or {}
    return {name: value for name, value in labels.items() if name.startswith(_POD_SECURITY)}


def manager_binding(
    namespace: str, owner: Ownership, role: str, operator: OperatorAccount
) -> Object:
    """The RoleBinding of the operator in this one namespace, to the ClusterRole `role`."""
    return _binding(MANAGER_NAME, namespace, owner, role, operator.as_object())


def applier_binding(namespace: str, owner: Ownership, role: str) -> Object:
    """The RoleBinding of the account that bundles are applied as, in this one namespace."""
    account = {"kind": "ServiceAccount", "namespace": namespace, "name": APPLIER_NAME}
    return _binding(APPLIER_NAME, namespace, owner, role, account)


def applier_user(namespace: str) -> str:
    """The user name that is impersonated to apply bundles; there is no such ServiceAccount."""
    return f"system:serviceaccount:{namespace}:{APPLIER_NAME}"


def default_service_account(namespace: str, owner: Ownership) -> Object:
    """The ServiceAccount that pods run as; it has no rights and no token."""
    account = _object("v1", "ServiceAccount", DEFAULT_ACCOUNT, namespace, owner)
    return {**account, "automountServiceAccountToken": False}


def limit_range(
    namespace: str, owner: Ownership, container: Mapping[str, Mapping[str, str]]
) -> Object:
    """The LimitRange with defaults and maxima for containers."""
    row = {"type": "Container", **{name: dict(values) for name, values in container.items()}}
    limits = _object("v1", "LimitRange", LIMIT_RANGE_NAME, namespace, owner)
    return {**limits, "spec": {"limits": [row]}}


def resource_quota(namespace: str, owner: Ownership, hard: Mapping[str, str]) -> Object:
    """The ResourceQuota of all pods and objects together."""
    return {
        **_object("v1", "ResourceQuota", QUOTA_NAME, namespace, owner),
        "spec": {"hard": dict(hard)},
    }


def network_policy(namespace: str, owner: Ownership, name: str, spec: Object) -> Object:
    """A NetworkPolicy: one that denies everything, or one that allows one kind of traffic."""
    policy = _object("networking.k8s.io/v1", "NetworkPolicy", name, namespace, owner)
    return {**policy, "spec": spec}


def config_map(namespace: str, owner: Ownership, name: str, data: Mapping[str, str]) -> Object:
    """A ConfigMap for state of the operator."""
    return {**_object("v1", "ConfigMap", name, namespace, owner), "data": dict(data)}


def release_secret(namespace: str, owner: Ownership, name: str, data: Mapping[str, str]) -> Object:
    """The Secret with the rendered chart of the desired revision; `data` is in base64."""
    return {
        **_object("v1", "Secret", name, namespace, owner),
        "type": RELEASE_TYPE,
        "data": dict(data),
    }


def _binding(name: str, namespace: str, owner: Ownership, role: str, subject: Object) -> Object:
    return {
        **_object(f"{_RBAC}/v1", "RoleBinding", name, namespace, owner),
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


def _object(api_version: str, kind: str, name: str, namespace: str, owner: Ownership) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": owner.labels,
            "annotations": owner.annotations,
        },
    }
