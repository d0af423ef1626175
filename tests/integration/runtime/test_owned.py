"""What the real API server makes of objects we own, and whether that is as wanted."""

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

WANTED: dict[str, tuple[GVR, dict[str, Any]]] = {
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
    gvr, rest = WANTED[kind]
    metadata = {"name": "owned", "namespace": namespace, "labels": {"by": "windlass"}}
    return {"apiVersion": gvr.api_version, "kind": kind, "metadata": metadata, **rest}


@pytest.mark.parametrize("kind", sorted(WANTED))
async def test_an_object_as_wanted_is_left_alone(api: Api, namespace: str, kind: str) -> None:
    """After one write, and a restart, nothing more is written."""
    gvr, _ = WANTED[kind]
    wanted = _object(kind, namespace)
    await OwnedObjects(api, MANAGER).ensure(gvr, wanted, None)
    live = await api.get(gvr, "owned", namespace)
    assert await OwnedObjects(api, MANAGER).ensure(gvr, wanted, live) is live


async def test_defaults_inside_whole_lists_are_learnt(api: Api, namespace: str) -> None:
    """Where the server fills in what we own as a whole, its answer is the measure."""
    gvr, _ = WANTED["NetworkPolicy"]
    wanted = _object("NetworkPolicy", namespace)
    wanted["spec"] = {"podSelector": {}, "egress": [{"ports": [{"port": 443}]}]}
    owned = OwnedObjects(api, MANAGER)
    first = await owned.ensure(gvr, wanted, None)
    assert not managed_fields.is_up_to_date(wanted, first, MANAGER)
    live = await api.get(gvr, "owned", namespace)
    assert await owned.ensure(gvr, wanted, live) is live
    after_a_restart = await OwnedObjects(api, MANAGER).ensure(gvr, wanted, live)
    assert _version(after_a_restart) == _version(first)


def _version(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["resourceVersion"])


async def test_an_edit_is_seen_and_put_right(api: Api, namespace: str) -> None:
    """Our value comes back, what somebody else added stays."""
    gvr, _ = WANTED["ResourceQuota"]
    wanted = _object("ResourceQuota", namespace)
    owned = OwnedObjects(api, MANAGER)
    await owned.ensure(gvr, wanted, None)
    patch = {"metadata": {"labels": {"theirs": "yes"}}, "spec": {"hard": {"pods": "99"}}}
    edited = await api.merge_patch(gvr, "owned", patch, namespace, field_manager="somebody")
    assert not owned.is_up_to_date(wanted, edited)
    mended = await owned.ensure(gvr, wanted, edited)
    assert mended["spec"]["hard"]["pods"] == "20"
    assert mended["metadata"]["labels"]["theirs"] == "yes"
    assert owned.is_up_to_date(wanted, mended)


async def test_a_field_we_drop_disappears(api: Api, namespace: str) -> None:
    """What is no longer wanted is taken back."""
    gvr, _ = WANTED["ConfigMap"]
    wanted = _object("ConfigMap", namespace)
    live = await OwnedObjects(api, MANAGER).ensure(gvr, wanted, None)
    fewer = {**wanted, "data": {"a": "1"}}
    left = await OwnedObjects(api, MANAGER).ensure(gvr, fewer, live)
    assert left["data"] == {"a": "1"}


async def test_finalizers_of_others_stay(api: Api, namespace: str) -> None:
    """Ours is put on and taken off; theirs is not touched."""
    gvr, _ = WANTED["ConfigMap"]
    wanted = _object("ConfigMap", namespace)
    wanted["metadata"]["finalizers"] = ["example.com/theirs"]
    live = await api.create(gvr, wanted, field_manager="somebody")
    await finalizer.add_finalizer(api, gvr, live, "windlass.dev/ours", field_manager=MANAGER)
    live = await api.get(gvr, "owned", namespace)
    assert live["metadata"]["finalizers"] == ["example.com/theirs", "windlass.dev/ours"]
    await finalizer.remove_finalizer(api, gvr, live, "windlass.dev/ours", field_manager=MANAGER)
    live = await api.get(gvr, "owned", namespace)
    assert live["metadata"]["finalizers"] == ["example.com/theirs"]
    await api.merge_patch(
        gvr, "owned", {"metadata": {"finalizers": None}}, namespace, field_manager="somebody"
    )


async def test_acting_as_somebody_has_their_rights_only(
    connection: Connection, namespace: str
) -> None:
    """The server judges an impersonated request by the rights of the impersonated user."""
    nobody = Api(connection, acting_as=f"system:serviceaccount:{namespace}:nobody")
    with pytest.raises(Forbidden, match="nobody"):
        await nobody.get(WANTED["ConfigMap"][0], "owned", namespace)
