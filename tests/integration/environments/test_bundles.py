"""Objects that a commit brings into the cluster, refuses, and prunes."""

from __future__ import annotations

import base64
import json

import pytest

from tests.support.environments.environment_harness import (
    CLAIMS,
    CONFIG_MAP,
    CONFIG_MAPS,
    DEPLOYMENTS,
    MANAGER,
    NAMESPACES,
    QUOTAS,
    SECRETS,
    SERVICE,
    EnvironmentHarness,
    deployment,
)
from tests.support.processes.polling import eventually
from windlass.environments.apply.namespace_client import NamespaceClient
from windlass.kube.errors import Forbidden
from windlass.objects.names import GVR

pytestmark = pytest.mark.cluster

_SERVICES = GVR("", "v1", "services")
_JOBS = GVR("batch", "v1", "jobs")
_CLAIM = (
    "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n"
    "spec: {accessModes: [ReadWriteOnce], storageClassName: patient,"
    " resources: {requests: {storage: 1Gi}}}\n"
)
_CLASSES = GVR("storage.k8s.io", "v1", "storageclasses")
_PATIENT = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "patient"},
    "provisioner": "example.com/none",
    "volumeBindingMode": "WaitForFirstConsumer",
}
_FORBIDDEN = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: all-of-it}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
---
apiVersion: v1
kind: Namespace
metadata: {name: mine}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
---
"""


@pytest.mark.scenario("E68")
async def test_one_forbidden_kind_keeps_the_whole_bundle_out(tenant: EnvironmentHarness) -> None:
    """All forbidden objects are named at once, and nothing is applied."""
    tenant.commit({"deploy/all.yaml": _FORBIDDEN + CONFIG_MAP})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        environment = await tenant.phase("Failed")
        namespace = await tenant.environment_namespace()
    rows = {row["type"]: row for row in environment["status"]["conditions"]}
    assert rows["DeploymentReady"]["reason"] == "KindNotAllowed"
    for name in ("all-of-it", "mine", "things.example.com"):
        assert name in environment["status"]["message"]
    names = {row["metadata"]["name"] for row in await tenant.api.list(CONFIG_MAPS, namespace)}
    assert names <= {"kube-root-ca.crt"}


@pytest.mark.scenario("E69")
async def test_a_bundle_stays_in_its_namespace_and_off_reserved_names(
    tenant: EnvironmentHarness,
) -> None:
    """A foreign namespace is replaced, reserved labels are dropped, reserved names refused."""
    astray = CONFIG_MAP.replace(
        "{name: settings}",
        "{name: settings, namespace: kube-system, labels: {kept: 'yes', "
        "pod-security.kubernetes.io/enforce: privileged, catalyst.dev/environment-uid: forged}}",
    )
    quota = "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: default-quota}\nspec: {}\n"
    tenant.commit({"deploy/all.yaml": astray})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        environment = await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        applied = await tenant.api.get(CONFIG_MAPS, "settings", namespace)
        labels = applied["metadata"]["labels"]
        assert labels["kept"] == "yes"
        assert labels["catalyst.dev/environment-uid"] == environment["metadata"]["uid"]
        assert not [name for name in labels if name.startswith("pod-security")]
        assert "kube-system" in str(environment["status"]["unsupported"])
        before = await tenant.api.get(QUOTAS, "default-quota", namespace)
        tenant.commit({"deploy/all.yaml": astray + quota})
        refused = await tenant.condition("DeploymentReady", "NameReserved")
        after = await tenant.api.get(QUOTAS, "default-quota", namespace)
    assert after["spec"] == before["spec"]
    assert refused["status"]["phase"] == "Failed"
    assert refused["status"]["serving"] == environment["status"]["serving"]
    assert "still serving" in refused["status"]["message"]


@pytest.mark.scenario("E70")
async def test_objects_removed_from_the_source_are_pruned(tenant: EnvironmentHarness) -> None:
    """Objects and fields are removed, claims stay; a Secret is created, changed, pruned."""
    secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {a: one}\n"
    full = CONFIG_MAP.replace("color: blue", "color: blue, size: big")
    tenant.commit({"deploy/a.yaml": "---\n".join((full, SERVICE, _CLAIM)) + secret})
    tenant.commit({"deploy/all.yaml": None})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        refused = await tenant.phase("Failed")
        assert "PersistentVolumeClaim/data spec.storageClassName" in refused["status"]["message"]
        # The claim stays pending: its class waits for a pod. That counts as ready.
        await tenant.api.apply(_CLASSES, _PATIENT, field_manager=MANAGER)
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        live_secret = await tenant.api.get(SECRETS, "key", namespace)
        assert base64.b64decode(live_secret["data"]["a"]) == b"one"
        tenant.commit({"deploy/a.yaml": CONFIG_MAP + secret.replace("one", "two")})
        await tenant.wait_deleted(_SERVICES, "web", namespace)
        settings = await tenant.api.get(CONFIG_MAPS, "settings", namespace)
        assert settings["data"] == {"color": "blue"}
        live_secret = await tenant.api.get(SECRETS, "key", namespace)
        assert base64.b64decode(live_secret["data"]["a"]) == b"two"
        await tenant.api.get(CLAIMS, "data", namespace)
        tenant.commit({"deploy/a.yaml": CONFIG_MAP})
        await tenant.wait_deleted(SECRETS, "key", namespace)

        async def third() -> bool:
            return bool((await tenant.get())["status"]["serving"]["revision"] == 3)

        await eventually(third, "the third revision serves")
    await tenant.api.delete(_CLASSES, "patient")


async def test_a_finalizer_that_keeps_an_object_is_named(tenant: EnvironmentHarness) -> None:
    """The object is created again from the new commit once the finalizer is removed."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        held = {"metadata": {"finalizers": ["example.com/hold"]}}
        await tenant.patch(CONFIG_MAPS, "settings", held, namespace)
        await tenant.api.delete(CONFIG_MAPS, "settings", namespace)
        commit = tenant.commit({"deploy/all.yaml": CONFIG_MAP.replace("blue", "red")})
        environment = await tenant.condition("DeploymentReady", "Applying")
        assert (
            "deploy/all.yaml, ConfigMap/settings is terminating and waits for its "
            "metadata.finalizers: example.com/hold" in environment["status"]["message"]
        )
        released = {"metadata": {"finalizers": None}}
        await tenant.patch(CONFIG_MAPS, "settings", released, namespace)
        await tenant.wait_running(commit=commit)
        live = await tenant.api.get(CONFIG_MAPS, "settings", namespace)
    assert live["data"] == {"color": "red"}


async def test_an_object_that_cannot_be_pruned_is_named(
    tenant: EnvironmentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt deletes it."""
    remove = NamespaceClient.remove
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")

        async def refuse(*_: object) -> None:
            raise Forbidden(403, "Forbidden", "no")

        monkeypatch.setattr(NamespaceClient, "remove", refuse)
        tenant.commit({"deploy/all.yaml": SERVICE})
        environment = await tenant.condition("DeploymentReady", "PruneFailed")
        assert (
            "ConfigMap/settings is no longer in the source and cannot be deleted: Forbidden"
            in environment["status"]["message"]
        )
        monkeypatch.setattr(NamespaceClient, "remove", remove)
        await tenant.wait_deleted(CONFIG_MAPS, "settings", await tenant.environment_namespace())


async def test_a_deleted_namespace_is_created_again_completely(
    tenant: EnvironmentHarness,
) -> None:
    """Including Secrets, which are not watched."""
    secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {a: one}\n"
    tenant.commit({"deploy/all.yaml": CONFIG_MAP + secret})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        before = await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        await tenant.api.delete(NAMESPACES, namespace)

        async def recreated() -> bool:
            status = (await tenant.get())["status"]
            is_new = status["namespaceUID"] != before["status"]["namespaceUID"]
            return bool(is_new and status["phase"] == "Ready")

        await eventually(recreated, "a new namespace", seconds=40.0)
        await tenant.api.get(SECRETS, "key", namespace)


@pytest.mark.scenario("E72")
async def test_an_object_with_a_changed_immutable_field_is_recreated(
    tenant: EnvironmentHarness,
) -> None:
    """For a Deployment's selector; a StatefulSet is refused, because of its volumes."""
    tenant.commit({"deploy/all.yaml": deployment()})
    changed = deployment().replace('"app":"web"', '"app":"web","tier":"front"')
    stateful = deployment("db").replace("Deployment", "StatefulSet")
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.wait_running()
        namespace = await tenant.environment_namespace()
        before = await tenant.api.get(DEPLOYMENTS, "web", namespace)
        second = tenant.commit({"deploy/all.yaml": changed})

        async def recreated() -> bool:
            deployments = await tenant.api.list(DEPLOYMENTS, namespace)
            return any(row["metadata"]["uid"] != before["metadata"]["uid"] for row in deployments)

        await eventually(recreated, "another Deployment")
        await tenant.wait_running(commit=second)
        third = tenant.commit({"deploy/db.yaml": stateful})
        await tenant.wait_running(commit=third)
        tenant.commit({"deploy/db.yaml": stateful.replace('"app":"db"', '"app":"base"')})
        environment = await tenant.condition("DeploymentReady", "ImmutableField")
    assert "spec" in environment["status"]["message"]
    assert "catalyst.dev/recreate" in environment["status"]["message"]


_JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "once"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "main",
                        "image": "registry.invalid/once:1",
                        "env": [{"name": "WORDS", "value": "many " * 200}],
                    }
                ],
            }
        }
    },
}


async def test_a_changed_job_is_recreated(tenant: EnvironmentHarness) -> None:
    """However long the message is with which the API server refuses to change it."""
    tenant.commit({"deploy/all.yaml": json.dumps(_JOB)})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.condition("DeploymentReady", "RolloutProgressing")
        namespace = await tenant.environment_namespace()
        before = await tenant.api.get(_JOBS, "once", namespace)
        tenant.commit({"deploy/all.yaml": json.dumps(_JOB).replace("once:1", "once:2")})

        async def recreated() -> bool:
            jobs = await tenant.api.list(_JOBS, namespace)
            return any(row["metadata"]["uid"] != before["metadata"]["uid"] for row in jobs)

        await eventually(recreated, "another Job")


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (deployment().replace('"spec":{"replicas"', '"spec":{"nonsense":1,"replicas"'), "spec.non"),
        (deployment().replace('"replicas":1', '"replicas":"hunter2"'), "spec.replicas: must be"),
        (
            deployment().replace('"replicas":1', '"replicas":1.5'),
            "spec.replicas: must be an integer",
        ),
        (deployment(env=[{"name": "A", "value": 4711}]), 'env[name="A"].value: must be a string'),
        (deployment(ports=[{"name": "web"}]), "ports[0].containerPort"),
    ],
)
async def test_an_object_that_does_not_fit_its_schema_fails(
    tenant: EnvironmentHarness, manifest: str, message: str
) -> None:
    """File, object and field are named, the value is not; the step is not retried for ever."""
    tenant.commit({"deploy/all.yaml": manifest})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        environment = await tenant.condition("DeploymentReady", "ConfigInvalid")
    assert environment["status"]["phase"] == "Failed"
    assert "deploy/all.yaml, Deployment/web" in environment["status"]["message"]
    assert message in environment["status"]["message"]
    assert not any(value in str(environment["status"]) for value in ("hunter2", "4711"))
    step = {row["name"]: row["state"] for row in environment["status"]["steps"]}
    assert (step["prepare"], step["workloads"]) == ("Succeeded", "Failed")
