"""Objects to measure with, of the sizes that clusters hold."""

from __future__ import annotations

from typing import Any

from windlass.objects.names import GVR

CONFIG_MAPS = GVR("", "v1", "configmaps")
DEPLOYMENTS = GVR("apps", "v1", "deployments")
POD_TEMPLATES = GVR("", "v1", "podtemplates")
"""A pod's whole description that no controller touches: what we write is all that happens."""


def config_map(namespace: str, name: str, value: str) -> dict[str, Any]:
    """A small ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "bench"},
        },
        "data": {
            "LOG_LEVEL": "info",
            "ENDPOINT": f"https://{name}.{namespace}.svc:8443/v1",
            "serial": value,
        },
    }


def pod_template(namespace: str, name: str) -> dict[str, Any]:
    """A PodTemplate; with its managed fields the server sends about 3 KB of it."""
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "bench"},
            "annotations": {"bench/serial": "0"},
        },
        "template": _pod(name),
    }


def deployment(namespace: str, name: str) -> dict[str, Any]:
    """A Deployment as the server would send it, about 2 KB, without its managed fields."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": "2f1c0c3e-58a5-4b0f-9d6b-0a6f6b1d7c11",
            "resourceVersion": "184467",
            "generation": 7,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "bench"},
            "annotations": {"deployment.kubernetes.io/revision": "7", "team": "storefront"},
        },
        "spec": {
            "replicas": 3,
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
            },
            "template": _pod(name),
        },
        "status": {
            "observedGeneration": 7,
            "replicas": 3,
            "readyReplicas": 3,
            "conditions": [
                {
                    "type": "Available",
                    "status": "True",
                    "reason": "MinimumReplicasAvailable",
                    "message": "Deployment has minimum availability.",
                    "lastUpdateTime": "2026-01-01T00:01:00Z",
                    "lastTransitionTime": "2026-01-01T00:01:00Z",
                }
            ],
        },
    }


def _pod(name: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app.kubernetes.io/name": name}},
        "spec": {
            "containers": [
                {
                    "name": "web",
                    "image": f"registry.example.org/storefront/{name}:1.42.0",
                    "imagePullPolicy": "IfNotPresent",
                    "args": ["--listen=:8080", "--config=/etc/web/config.yaml"],
                    "env": [
                        {"name": "LOG_LEVEL", "value": "info"},
                        {"name": "REGION", "value": "eu-central-1"},
                    ],
                    "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                    "resources": {
                        "requests": {"cpu": "100m", "memory": "128Mi"},
                        "limits": {"memory": "256Mi"},
                    },
                    "readinessProbe": {
                        "httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"},
                        "periodSeconds": 5,
                        "failureThreshold": 3,
                    },
                    "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}],
                    "terminationMessagePath": "/dev/termination-log",
                }
            ],
            "volumes": [{"name": "config", "configMap": {"name": name, "defaultMode": 420}}],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
        },
    }
