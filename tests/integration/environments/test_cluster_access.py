"""Cluster access of a bundle: volumes, networks, roles, exposed Services."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.support.environments.environment_harness import (
    CLAIMS,
    DEPLOYMENTS,
    MANAGER,
    EnvironmentHarness,
    deployment,
)
from tests.support.processes.polling import eventually
from windlass.environments.bundle.cluster_access import ClusterAccess
from windlass.kube.errors import NotFound
from windlass.objects.names import GVR

pytestmark = pytest.mark.cluster

_VOLUMES = GVR("", "v1", "persistentvolumes")
_CLASSES = GVR("storage.k8s.io", "v1", "storageclasses")
_SERVICES = GVR("", "v1", "services")
_ACCOUNTS = GVR("", "v1", "serviceaccounts")
_SIZE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture
async def foreign_volume(tenant: EnvironmentHarness) -> AsyncIterator[str]:
    """An existing volume with data of others, available for binding."""
    name = f"foreign-{tenant.namespace}"
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {"data": name}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": name,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/srv/foreign"},
        },
    }
    await tenant.api.apply(_VOLUMES, volume, field_manager=MANAGER)
    yield name
    await tenant.api.delete(_VOLUMES, name)


def _claim(name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, **metadata},
        "spec": {**_SIZE, **spec},
    }


def _stateful(spec: dict[str, Any]) -> dict[str, Any]:
    obj: dict[str, Any] = json.loads(deployment("db").replace("Deployment", "StatefulSet"))
    template = {"metadata": {"name": "data"}, "spec": {**_SIZE, **spec}}
    obj["spec"]["volumeClaimTemplates"] = [template]
    return obj


def _written(*objects: dict[str, Any]) -> str:
    return "\n---\n".join(map(json.dumps, objects))


def _by_name(volume: str) -> dict[str, Any]:
    return {"volumeName": volume, "storageClassName": volume}


def _by_label(volume: str) -> dict[str, Any]:
    return {"selector": {"matchLabels": {"data": volume}}, "storageClassName": volume}


def _by_beta_class(volume: str) -> dict[str, Any]:
    return _claim("data", {}, annotations={"volume.beta.kubernetes.io/storage-class": volume})


def _inline(volume: str) -> dict[str, Any]:
    obj: dict[str, Any] = json.loads(deployment("db"))
    template = {"spec": {**_SIZE, **_by_name(volume)}}
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    obj["spec"]["template"]["spec"]["volumes"] = [scratch]
    return obj


@pytest.mark.parametrize(
    ("make_claim", "message"),
    [
        (lambda volume: _claim("data", _by_name(volume)), "data spec.volumeName"),
        (lambda volume: _claim("data", _by_label(volume)), "data spec.selector"),
        (
            lambda volume: _claim("data", {"storageClassName": volume}),
            "data spec.storageClassName: this StorageClass is not allowed",
        ),
        (_by_beta_class, "data metadata.annotations.volume.beta.kubernetes.io/storage-class"),
        (
            lambda volume: _stateful(_by_name(volume)),
            "db spec.volumeClaimTemplates[0].spec.volumeName",
        ),
        (_inline, "db spec.template.spec.volumes[0].ephemeral.volumeClaimTemplate.spec.volumeName"),
    ],
    ids=["name", "label", "class", "beta class", "template", "ephemeral"],
)
async def test_no_claim_binds_a_foreign_volume(
    tenant: EnvironmentHarness,
    foreign_volume: str,
    make_claim: Callable[[str], dict[str, Any]],
    message: str,
) -> None:
    """Whichever field of a claim asks for it, the volume stays available."""
    tenant.commit({"deploy/all.yaml": json.dumps(make_claim(foreign_volume))})

    async def decided() -> bool:
        volume = await tenant.api.get(_VOLUMES, foreign_volume)
        status = (await tenant.get()).get("status") or {}
        return "claimRef" in volume["spec"] or status.get("phase") == "Failed"

    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await eventually(decided, "the volume is bound, or the claim refused")
        environment = await tenant.get()
        claims = await tenant.api.list(CLAIMS, await tenant.environment_namespace())
    volume = await tenant.api.get(_VOLUMES, foreign_volume)
    assert volume["spec"].get("claimRef") is None
    assert claims == []
    assert message in environment["status"]["message"]
    rows = {row["type"]: row["reason"] for row in environment["status"]["conditions"]}
    assert rows["DeploymentReady"] == "FieldNotAllowed"


async def test_the_default_class_must_be_allowed_too(
    tenant: EnvironmentHarness, foreign_volume: str
) -> None:
    """A claim without a class waits for a default class that provisions volumes."""
    by_hand = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": foreign_volume,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    tenant.commit({"deploy/all.yaml": _written(_claim("data", {}))})
    await tenant.api.apply(_CLASSES, by_hand, field_manager=MANAGER)
    try:
        async with tenant.running(poll_seconds=3600.0):
            await tenant.apply(tenant.project(), tenant.environment())
            environment = await tenant.condition("DeploymentReady", "FieldNotAllowed")
            namespace = await tenant.environment_namespace()
            assert "the default StorageClass is not allowed" in environment["status"]["message"]
            await tenant.api.delete(_CLASSES, foreign_volume)
            real = {**by_hand, "provisioner": "example.com/disk"}
            await tenant.api.apply(_CLASSES, real, field_manager=MANAGER)
            await tenant.phase("Ready")
            claim = await tenant.api.get(CLAIMS, "data", namespace)
        assert claim["spec"]["storageClassName"] == foreign_volume
    finally:
        await tenant.api.delete(_CLASSES, foreign_volume)


_ANNOTATIONS = {
    "k8s.v1.cni.cncf.io/networks": "storage-net",
    "vendor.example/note": "theirs",
    "checksum/config": "1",
    "rollme": "x",
}


def _annotated() -> str:
    web: dict[str, Any] = json.loads(deployment())
    template = web["spec"]["template"]
    template["metadata"]["annotations"] = _ANNOTATIONS
    template["spec"]["serviceAccountName"] = "worker"
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "web",
            "annotations": {
                "external-dns.alpha.kubernetes.io/hostname": "bank.example.com",
                "vendor.example/note": "theirs",
            },
        },
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": "worker",
            "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/admin"},
        },
    }
    return _written(web, service, account)


@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
async def test_annotations_with_effects_outside_are_left_out(
    tenant: EnvironmentHarness, trust: str
) -> None:
    """Of pods, Services and ServiceAccounts; untrusted ones keep only harmless annotations."""
    tenant.commit({"deploy/all.yaml": _annotated()})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment(trust=trust))
        environment = await tenant.wait_running()
        namespace = await tenant.environment_namespace()
        web = await tenant.api.get(DEPLOYMENTS, "web", namespace)
        service = await tenant.api.get(_SERVICES, "web", namespace)
        account = await tenant.api.get(_ACCOUNTS, "worker", namespace)
    kept = set(web["spec"]["template"]["metadata"]["annotations"])
    vendor = {"vendor.example/note"} if trust == "trusted" else set()
    assert kept == {"checksum/config", "rollme"} | vendor
    assert vendor == {"vendor.example/note"} & set(service["metadata"]["annotations"])
    exposing = ("external-dns.", "eks.amazonaws.com/")
    for obj in (service, account):
        assert not [key for key in obj["metadata"]["annotations"] if key.startswith(exposing)]
    unsupported = "\n".join(environment["status"]["unsupported"])
    assert "annotations.k8s.v1.cni.cncf.io/networks" in unsupported
    assert "Service/web is applied without metadata.annotations.external-dns" in unsupported
    assert "ServiceAccount/worker is applied without metadata.annotations.eks" in unsupported


async def test_only_listed_csi_drivers_and_schedulers_are_allowed(
    tenant: EnvironmentHarness,
) -> None:
    """Both act outside the namespace, so the administrator lists them."""
    web: dict[str, Any] = json.loads(deployment())
    pod = web["spec"]["template"]["spec"]
    pod["schedulerName"] = "batch"
    pod["volumes"] = [{"name": "v", "csi": {"driver": "secrets.example.com"}}]
    tenant.commit({"deploy/all.yaml": _written(web)})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        environment = await tenant.condition("DeploymentReady", "FieldNotAllowed")
        namespace = await tenant.environment_namespace()
    assert "environments-schedulers" in environment["status"]["message"]
    assert "environments-csi-drivers" in environment["status"]["message"]
    opened = ClusterAccess(
        csi_drivers=frozenset({"secrets.example.com"}), schedulers=frozenset({"batch"})
    )
    async with tenant.running(cluster_access=opened):

        async def applied() -> Any:
            try:
                return await tenant.api.get(DEPLOYMENTS, "web", namespace)
            except NotFound:
                return None

        live = await eventually(applied, "the Deployment")
    assert live["spec"]["template"]["spec"]["schedulerName"] == "batch"
