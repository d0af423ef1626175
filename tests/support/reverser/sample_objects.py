"""A namespace with one object of every usual type, and some that are not mirrored."""

from __future__ import annotations

from typing import Any

_POD = {"containers": [{"name": "web", "image": "registry.invalid/web:1"}]}
_LABELS = {"app": "web"}
_SELECTED = {
    "selector": {"matchLabels": _LABELS},
    "template": {"metadata": {"labels": _LABELS}, "spec": _POD},
}
_PORT = {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}
_RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]

PRESET: dict[str, dict[str, Any]] = {
    "apps/v1/deployments": {"spec": {"replicas": 2, **_SELECTED}},
    "apps/v1/statefulsets": {"spec": {"serviceName": "web", "replicas": 0, **_SELECTED}},
    "apps/v1/daemonsets": {"spec": _SELECTED},
    "v1/services": {"spec": {"selector": _LABELS, "ports": [_PORT], "type": "NodePort"}},
    "v1/configmaps": {"data": {"a": "no", "b": "line\nline\n", "c": "1e3"}},
    "v1/secrets": {"type": "Opaque", "data": {"a": "dmFsdWU="}},
    "v1/serviceaccounts": {"imagePullSecrets": [{"name": "pull"}]},
    "v1/resourcequotas": {"spec": {"hard": {"pods": "10"}}},
    "v1/limitranges": {
        "spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}
    },
    "networking.k8s.io/v1/ingresses": {
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}
    },
    "networking.k8s.io/v1/networkpolicies": {"spec": {"podSelector": {"matchLabels": _LABELS}}},
    "rbac.authorization.k8s.io/v1/roles": {"rules": _RULES},
    "rbac.authorization.k8s.io/v1/rolebindings": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "web"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}],
    },
    "policy/v1/poddisruptionbudgets": {
        "spec": {"minAvailable": 1, "selector": {"matchLabels": _LABELS}}
    },
}
"""The namespaced part of the preset."""

OTHERS: dict[str, dict[str, Any]] = {
    "v1/pods": {"spec": _POD},
    "batch/v1/cronjobs": {
        "spec": {
            "schedule": "0 0 1 1 *",
            "jobTemplate": {
                "spec": {"template": {"spec": {**_POD, "restartPolicy": "Never"}}},
            },
        }
    },
    "coordination.k8s.io/v1/leases": {"spec": {"holderIdentity": "nobody"}},
}
"""Softly excluded, or never mirrored."""

_KINDS = {
    "statefulsets": "StatefulSet",
    "daemonsets": "DaemonSet",
    "configmaps": "ConfigMap",
    "serviceaccounts": "ServiceAccount",
    "resourcequotas": "ResourceQuota",
    "limitranges": "LimitRange",
    "ingresses": "Ingress",
    "networkpolicies": "NetworkPolicy",
    "rolebindings": "RoleBinding",
    "poddisruptionbudgets": "PodDisruptionBudget",
    "cronjobs": "CronJob",
}


def documents(types: dict[str, dict[str, Any]], namespace: str) -> list[dict[str, Any]]:
    """One object named `web` of each type."""
    objects = []
    for type_path, body in types.items():
        api_version, _, plural = type_path.rpartition("/")
        kind = _KINDS.get(plural, plural.removesuffix("s").capitalize())
        metadata = {"name": "web", "namespace": namespace, "labels": {"app": "web"}}
        objects.append({"apiVersion": api_version, "kind": kind, "metadata": metadata, **body})
    return objects
