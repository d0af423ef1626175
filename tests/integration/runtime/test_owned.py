"""How the real API server stores our objects, and whether they equal the desired ones."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import Forbidden
from windlass.objects import managed_fields
from windlass.objects.names import GVR
from windlass.runtime import finalizer
from windlass.runtime.owned import OwnedObjects

pytestmark = pytest.mark.cluster

MANAGER = "windlass-owned"
_POD = {
    "containers": [
        {
            "name": "web",
            "image": "registry.invalid/web",
            "args": ["--b", "--a"],
            "env": [{"name": "B", "value": "1"}, {"name": "A", "value": "1000m"}],
            "ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
            "volumeMounts": [{"name": "work", "mountPath": "/work"}],
        }
    ],
    "volumes": [{"name": "work", "emptyDir": {}}],
}
_LABELS = {"app": "web"}

DESIRED: dict[str, tuple[GVR, dict[str, Any]]] = {
    "ConfigMap": (GVR("", "v1", "configmaps"), {"data": {"a": "1", "empty": ""}}),
    "Secret": (GVR("", "v1", "secrets"), {"type": "Opaque", "data": {"a": "MQ=="}}),
    "Service": (
        GVR("", "v1", "services"),
        {"spec": {"selector": _LABELS, "ports": [{"port": 80, "targetPort": 8080}]}},
    ),
    "Deployment": (
        GVR("apps", "v1", "deployments"),
        {
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": _LABELS},
                "template": {
                    "metadata": {"labels": _LABELS, "creationTimestamp": None},
                    "spec": _POD,
                },
            }
        },
    ),
    "ResourceQuota": (
        GVR("", "v1", "resourcequotas"),
        {"spec": {"hard": {"requests.cpu": "2000m", "pods": 20, "limits.memory": "4096Mi"}}},
    ),
    "LimitRange": (
        GVR("", "v1", "limitranges"),
        {
            "spec": {
                "limits": [
                    {
                        "type": "Container",
                        "default": {"cpu": "500m"},
                        "defaultRequest": {"cpu": "0.05"},
                    }
                ]
            }
        },
    ),
    "NetworkPolicy": (
        GVR("networking.k8s.io", "v1", "networkpolicies"),
        {
            "spec": {
                "podSelector": {},
                "policyTypes": ["Ingress", "Egress"],
                "egress": [
                    {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
                    {
                        "to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}],
                        "ports": [{"port": 443, "protocol": "TCP"}],
                    },
                ],
            }
        },
    ),
    "Role": (
        GVR("rbac.authorization.k8s.io", "v1", "roles"),
        {
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["configmaps"],
                    "resourceNames": ["b", "a"],
                    "verbs": ["get"],
                }
            ]
        },
    ),
}


def _object(kind: str, namespace: str) -> dict[str, Any]:
    gvr, rest = DESIRED[kind]
    metadata = {"name": "owned", "namespace": namespace, "labels": {"by": "windlass"}}
    return {"apiVersion": gvr.api_version, "kind": kind, "metadata": metadata, **rest}


@pytest.mark.parametrize("kind", sorted(DESIRED))
async def test_an_unchanged_object_is_not_written(api: Api, namespace: str, kind: str) -> None:
    """After one write, and a restart, nothing more is written."""
    gvr, _ = DESIRED[kind]
    desired = _object(kind, namespace)
    await OwnedObjects(api, MANAGER).ensure(gvr, desired, None)
    live = await api.get(gvr, "owned", namespace)
    assert await OwnedObjects(api, MANAGER).ensure(gvr, desired, live) is live


async def test_defaults_inside_atomic_lists_are_learned(api: Api, namespace: str) -> None:
    """Where the server adds fields to what we own as a whole, its response is compared."""
    gvr, _ = DESIRED["NetworkPolicy"]
    desired = _object("NetworkPolicy", namespace)
    desired["spec"] = {"podSelector": {}, "egress": [{"ports": [{"port": 443}]}]}
    owned = OwnedObjects(api, MANAGER)
    first = await owned.ensure(gvr, desired, None)
    assert not managed_fields.is_up_to_date(desired, first, MANAGER)
    live = await api.get(gvr, "owned", namespace)
    assert await owned.ensure(gvr, desired, live) is live
    after_a_restart = await OwnedObjects(api, MANAGER).ensure(gvr, desired, live)
    assert _version(after_a_restart) == _version(first)


def _version(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["resourceVersion"])


async def test_an_edit_is_reverted(api: Api, namespace: str) -> None:
    """Our value is restored, fields that another writer added stay."""
    gvr, _ = DESIRED["ResourceQuota"]
    desired = _object("ResourceQuota", namespace)
    owned = OwnedObjects(api, MANAGER)
    await owned.ensure(gvr, desired, None)
    patch = {"metadata": {"labels": {"theirs": "yes"}}, "spec": {"hard": {"pods": "99"}}}
    edited = await api.merge_patch(gvr, "owned", patch, namespace, field_manager="somebody")
    assert not owned.is_up_to_date(desired, edited)
    mended = await owned.ensure(gvr, desired, edited)
    assert mended["spec"]["hard"]["pods"] == "20"
    assert mended["metadata"]["labels"]["theirs"] == "yes"
    assert owned.is_up_to_date(desired, mended)


async def test_a_field_we_drop_disappears(api: Api, namespace: str) -> None:
    """A field that is no longer desired is removed."""
    gvr, _ = DESIRED["ConfigMap"]
    desired = _object("ConfigMap", namespace)
    live = await OwnedObjects(api, MANAGER).ensure(gvr, desired, None)
    fewer = {**desired, "data": {"a": "1"}}
    left = await OwnedObjects(api, MANAGER).ensure(gvr, fewer, live)
    assert left["data"] == {"a": "1"}


async def test_finalizers_of_others_stay(api: Api, namespace: str) -> None:
    """Ours is added and removed; theirs is not touched."""
    gvr, _ = DESIRED["ConfigMap"]
    desired = _object("ConfigMap", namespace)
    desired["metadata"]["finalizers"] = ["example.com/theirs"]
    live = await api.create(gvr, desired, field_manager="somebody")
    await finalizer.add_finalizer(api, gvr, live, "windlass.dev/ours", field_manager=MANAGER)
    live = await api.get(gvr, "owned", namespace)
    assert live["metadata"]["finalizers"] == ["example.com/theirs", "windlass.dev/ours"]
    await finalizer.remove_finalizer(api, gvr, live, "windlass.dev/ours", field_manager=MANAGER)
    live = await api.get(gvr, "owned", namespace)
    assert live["metadata"]["finalizers"] == ["example.com/theirs"]
    await api.merge_patch(
        gvr, "owned", {"metadata": {"finalizers": None}}, namespace, field_manager="somebody"
    )


async def test_impersonation_has_the_rights_of_the_user_only(
    connection: Connection, namespace: str
) -> None:
    """The server authorizes an impersonated request by the rights of the impersonated user."""
    nobody = Api(connection, acting_as=f"system:serviceaccount:{namespace}:nobody")
    with pytest.raises(Forbidden, match="nobody"):
        await nobody.get(DESIRED["ConfigMap"][0], "owned", namespace)
