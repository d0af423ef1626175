"""What a commit brings into the cluster, what is refused, and what goes again."""

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
    "provisioner": "example.com/nobody",
    "volumeBindingMode": "WaitForFirstConsumer",
}
_OFFENDERS = """
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
    """All offenders are named at once, and nothing reaches the API server."""
    tenant.commit({"deploy/all.yaml": _OFFENDERS + CONFIG_MAP})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        found = await tenant.phase("Failed")
        place = await tenant.place()
    rows = {row["type"]: row for row in found["status"]["conditions"]}
    assert rows["DeploymentReady"]["reason"] == "KindNotAllowed"
    for offender in ("all-of-it", "mine", "things.example.com"):
        assert offender in found["status"]["message"]
    names = {row["metadata"]["name"] for row in await tenant.api.list(CONFIG_MAPS, place)}
    assert names <= {"kube-root-ca.crt"}


@pytest.mark.scenario("E69")
async def test_a_bundle_stays_in_its_namespace_and_off_our_names(
    tenant: EnvironmentHarness,
) -> None:
    """A foreign namespace becomes ours, our labels are dropped, our names are refused."""
    astray = CONFIG_MAP.replace(
        "{name: settings}",
        "{name: settings, namespace: kube-system, labels: {kept: 'yes', "
        "pod-security.kubernetes.io/enforce: privileged, catalyst.dev/environment-uid: forged}}",
    )
    quota = "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: default-quota}\nspec: {}\n"
    tenant.commit({"deploy/all.yaml": astray})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        found = await tenant.phase("Ready")
        place = await tenant.place()
        applied = await tenant.api.get(CONFIG_MAPS, "settings", place)
        labels = applied["metadata"]["labels"]
        assert labels["kept"] == "yes"
        assert labels["catalyst.dev/environment-uid"] == found["metadata"]["uid"]
        assert not [name for name in labels if name.startswith("pod-security")]
        assert "kube-system" in str(found["status"]["unsupported"])
        before = await tenant.api.get(QUOTAS, "default-quota", place)
        tenant.commit({"deploy/all.yaml": astray + quota})
        refused = await tenant.condition("DeploymentReady", "NameReserved")
        after = await tenant.api.get(QUOTAS, "default-quota", place)
    assert after["spec"] == before["spec"]
    assert refused["status"]["phase"] == "Failed"
    assert refused["status"]["serving"] == found["status"]["serving"]
    assert "still serving" in refused["status"]["message"]


@pytest.mark.scenario("E70")
async def test_what_leaves_the_source_leaves_the_cluster(tenant: EnvironmentHarness) -> None:
    """Objects and fields go, volumes stay; a Secret is made, changed and removed unseen."""
    secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {a: one}\n"
    full = CONFIG_MAP.replace("colour: blue", "colour: blue, size: big")
    tenant.commit({"deploy/a.yaml": "---\n".join((full, SERVICE, _CLAIM)) + secret})
    tenant.commit({"deploy/all.yaml": None})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        refused = await tenant.phase("Failed")
        assert "PersistentVolumeClaim/data spec.storageClassName" in refused["status"]["message"]
        # Its class comes later; a claim may be pending where that waits for a pod.
        await tenant.api.apply(_CLASSES, _PATIENT, field_manager=MANAGER)
        await tenant.phase("Ready")
        place = await tenant.place()
        made = await tenant.api.get(SECRETS, "key", place)
        assert base64.b64decode(made["data"]["a"]) == b"one"
        tenant.commit({"deploy/a.yaml": CONFIG_MAP + secret.replace("one", "two")})
        await tenant.gone(_SERVICES, "web", place)
        settings = await tenant.api.get(CONFIG_MAPS, "settings", place)
        assert settings["data"] == {"colour": "blue"}
        made = await tenant.api.get(SECRETS, "key", place)
        assert base64.b64decode(made["data"]["a"]) == b"two"
        await tenant.api.get(CLAIMS, "data", place)
        tenant.commit({"deploy/a.yaml": CONFIG_MAP})
        await tenant.gone(SECRETS, "key", place)

        async def third() -> bool:
            return bool((await tenant.get())["status"]["serving"]["revision"] == 3)

        await eventually(third, "the third revision serves")
    await tenant.api.delete(_CLASSES, "patient")


async def test_a_namespace_that_somebody_deleted_comes_back_whole(
    tenant: EnvironmentHarness,
) -> None:
    """Also the Secret, which nobody watches."""
    secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {a: one}\n"
    tenant.commit({"deploy/all.yaml": CONFIG_MAP + secret})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        before = await tenant.phase("Ready")
        place = await tenant.place()
        await tenant.api.delete(NAMESPACES, place)

        async def again() -> bool:
            status = (await tenant.get())["status"]
            is_new = status["namespaceUID"] != before["status"]["namespaceUID"]
            return bool(is_new and status["phase"] == "Ready")

        await eventually(again, "a new namespace", seconds=40.0)
        await tenant.api.get(SECRETS, "key", place)


@pytest.mark.scenario("E72")
async def test_what_cannot_be_changed_in_place_is_made_anew(tenant: EnvironmentHarness) -> None:
    """A Deployment's selector is such a field; a StatefulSet's volumes are kept instead."""
    tenant.commit({"deploy/all.yaml": deployment()})
    changed = deployment().replace('"app":"web"', '"app":"web","tier":"front"')
    stateful = deployment("db").replace("Deployment", "StatefulSet")
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.started()
        place = await tenant.place()
        before = await tenant.api.get(DEPLOYMENTS, "web", place)
        second = tenant.commit({"deploy/all.yaml": changed})

        async def anew() -> bool:
            found = await tenant.api.list(DEPLOYMENTS, place)
            return any(row["metadata"]["uid"] != before["metadata"]["uid"] for row in found)

        await eventually(anew, "another Deployment")
        await tenant.started(commit=second)
        third = tenant.commit({"deploy/db.yaml": stateful})
        await tenant.started(commit=third)
        tenant.commit({"deploy/db.yaml": stateful.replace('"app":"db"', '"app":"base"')})
        found = await tenant.condition("DeploymentReady", "ImmutableField")
    assert "spec" in found["status"]["message"]
    assert "catalyst.dev/recreate" in found["status"]["message"]


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


async def test_a_job_that_changes_is_made_anew(tenant: EnvironmentHarness) -> None:
    """However long the words are in which the API server refuses to change it."""
    tenant.commit({"deploy/all.yaml": json.dumps(_JOB)})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Deploying")
        place = await tenant.place()
        before = await tenant.api.get(_JOBS, "once", place)
        tenant.commit({"deploy/all.yaml": json.dumps(_JOB).replace("once:1", "once:2")})

        async def anew() -> bool:
            found = await tenant.api.list(_JOBS, place)
            return any(row["metadata"]["uid"] != before["metadata"]["uid"] for row in found)

        await eventually(anew, "another Job")


@pytest.mark.parametrize(
    ("manifest", "told"),
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
async def test_what_does_not_fit_the_schema_is_for_a_person(
    tenant: EnvironmentHarness, manifest: str, told: str
) -> None:
    """File, object and field are named, what stands there is not, and nobody tries for ever."""
    tenant.commit({"deploy/all.yaml": manifest})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        found = await tenant.condition("DeploymentReady", "ConfigInvalid")
    assert found["status"]["phase"] == "Failed"
    assert "deploy/all.yaml, Deployment/web" in found["status"]["message"]
    assert told in found["status"]["message"]
    assert not any(value in str(found["status"]) for value in ("hunter2", "4711"))
    step = {row["name"]: row["state"] for row in found["status"]["steps"]}
    assert (step["prepare"], step["workloads"]) == ("Succeeded", "Failed")
