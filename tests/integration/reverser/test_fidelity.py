"""What reaches Git is what people meant, in files that can be applied again."""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster import custom_resource
from tests.support.cluster.custom_resource import CustomResource
from tests.support.processes.operator import Operator, eventually
from tests.support.reverser import sample_objects
from tests.support.reverser.api_users import admin_user
from tests.support.reverser.central_repository import configure_mirror
from tests.support.reverser.mirrored_namespace import MirroredNamespace

pytestmark = pytest.mark.cluster


@pytest.mark.scenario("A34")
def test_own_annotations_survive_and_machinery_does_not(mirrored: MirroredNamespace) -> None:
    """Labels and own annotations stay; kubectl's annotations and the status go."""
    wanted = CustomResource(custom_resource.unique_group())
    with custom_resource.installed_resource(admin_user(mirrored), wanted):
        document = wanted.new_object(
            mirrored.namespace, "one", spec={"size": 1}, extra={"kept": True}
        )
        document["metadata"]["labels"] = {"team": "blue"}
        document["metadata"]["annotations"] = {"example.org/owner": "bob"}
        mirrored.user("alice").kubectl("apply", "-f", "-", stdin=yaml.safe_dump(document))
        person = admin_user(mirrored)
        status = person.path("widgets", "one", api_version=f"{wanted.group}/v1") + "/status"
        merge = "application/merge-patch+json"
        done = person.request("PATCH", status, {"status": {"phase": "Done"}}, content_type=merge)
        assert done.ok, done.text
        mirrored.configured({"resources": ["widgets"]})
        path = wanted.file(mirrored.namespace, "one")
        eventually(lambda: path in mirrored.files(), "the file")
        assert yaml.safe_load(mirrored.file(path)) == document


def _role(name: str, namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role" if namespace else "ClusterRole",
        "metadata": metadata,
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }


@pytest.mark.scenario("A40")
def test_odd_names_have_files_of_their_own(platform: MirroredNamespace, namespace: str) -> None:
    """Distinct files below the folder, with names that every file system takes."""
    person = admin_user(platform)
    names = ["system:a b", "A", "con", "x" * 253]
    cluster_names = [f"{namespace}:a b", f"{namespace}-A", f"{namespace}-a"]
    roles = [_role(name, namespace) for name in names]
    cluster_roles = [_role(name) for name in cluster_names]
    for role in (*roles, *cluster_roles):
        collection = person.path(role["kind"], namespace=namespace)
        assert person.request("POST", collection, role).ok
    try:
        configure_mirror(
            platform,
            {"scope": "Namespaced", "resources": ["roles"]},
            {"scope": "Cluster", "resources": ["clusterroles"]},
        )
        found = eventually(lambda: _odd_files(platform, namespace), "all files")
    finally:
        for name in cluster_names:
            person.request("DELETE", person.path("clusterrole", name.replace(" ", "%20")))
    assert set(found.values()) == {*names, *cluster_names}
    for path in found:
        for segment in path.split("/"):
            assert len(segment.encode()) <= 255
            assert not set(segment) & set('<>:"\\|?*')
            assert segment.split(".")[0].lower() not in ("con", "nul", "aux", "prn")
            assert segment == segment.strip(". ")


def _odd_files(platform: MirroredNamespace, namespace: str) -> dict[str, str]:
    """Path and object name of the odd objects, once all are there."""
    found = {
        path: yaml.safe_load(text)["metadata"]["name"]
        for path, text in platform.files().items()
        if namespace in path or namespace in text
    }
    return found if len(found) == 7 else {}


@pytest.mark.scenario("A40")
def test_a_clone_with_windows_and_macos_protection_accepts_the_tree(
    mirrored: MirroredNamespace, tmp_path: Path
) -> None:
    """A checkout with the guards of Windows and macOS holds every file."""
    names = ["system:a b", "con", "x" * 253, "nul.txt"]
    person = admin_user(mirrored)
    for name in names:
        assert person.request("POST", person.path("roles"), _role(name, mirrored.namespace)).ok
    mirrored.configured({"resources": ["roles"]})
    eventually(lambda: len(mirrored.files()) == len(names), "every file")
    guards = ["-c", "core.protectNTFS=true", "-c", "core.protectHFS=true"]
    clone = ["git", *guards, "clone", "-q", str(mirrored.path), str(tmp_path / "clone")]
    done = subprocess.run(clone, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "clone" / mirrored.folder
    checked_out = {
        yaml.safe_load(file.read_text())["metadata"]["name"] for file in folder.rglob("*.yaml")
    }
    assert checked_out == set(names)


@pytest.mark.scenario("A46")
def test_applying_the_mirror_again_changes_nothing(mirrored: MirroredNamespace) -> None:
    """A server-side dry run of every file gives back the live object."""
    namespace = mirrored.namespace
    people = mirrored.user("alice")
    documents = sample_objects.documents(sample_objects.PRESET, namespace)
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    people.kubectl("apply", "-f", "-", stdin=text)
    mirrored.configured({})
    eventually(lambda: len(mirrored.files()) == len(documents) + 1, "every file")
    applied = 0
    for path, text in mirrored.files().items():
        document = yaml.safe_load(text)
        if document["kind"] == "Secret":
            continue
        eventually(functools.partial(_changes_nothing, mirrored, document), f"{path} as it is")
        applied += 1
    assert applied == len(documents) - 1


@pytest.mark.scenario("A46")
def test_a_stateful_set_with_claims_can_be_applied_again(mirrored: MirroredNamespace) -> None:
    """The list of claim templates is one value to the server: nothing is cut out of it."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    document = next(
        one
        for one in sample_objects.documents(sample_objects.PRESET, mirrored.namespace)
        if one["kind"] == "StatefulSet"
    )
    document["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": spec}]
    alice = mirrored.user("alice")
    alice.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(document))
    mirrored.configured({"resources": ["statefulsets"]})
    (text,) = eventually(lambda: list(mirrored.files().values()), "its file")
    again = ("apply", "--server-side", "--dry-run=server", "--field-manager=again", "-f", "-")

    def changes_nothing() -> bool:
        before = _live(mirrored, document)
        done = alice.try_kubectl(*again, "-o", "json", stdin=text)
        assert done.returncode == 0, done.stderr
        return _comparable(json.loads(done.stdout)) == before

    eventually(changes_nothing, "the live object")
    document["metadata"]["name"] = "more"
    alice.apply(document)
    mirrored.await_change("[CREATE] apps/v1/statefulsets/more")


@pytest.mark.scenario("A46")
def test_null_timestamps_in_atomic_values_can_be_applied_again(
    mirrored: MirroredNamespace,
) -> None:
    """What Go clients leave in templates stays where a file without it would conflict."""
    namespace, alice = mirrored.namespace, mirrored.user("alice")
    template = {"metadata": {"creationTimestamp": None, "labels": {"a": "b"}}, "spec": {}}
    widgets = CustomResource(custom_resource.unique_group())
    node_sets = [{"name": "hot", "podTemplate": template}]
    spec = {"nodeSets": node_sets, "podTemplate": template}
    revision = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "one", "namespace": namespace},
        "revision": 1,
        "data": {"spec": {"template": template}},
    }
    with custom_resource.installed_resource(admin_user(mirrored), widgets):
        documents = [widgets.new_object(namespace, "one", spec=spec), revision]
        text = yaml.safe_dump_all(documents)
        alice.kubectl("apply", "--server-side", "-f", "-", stdin=text)
        mirrored.configured({"resources": ["widgets", "controllerrevisions"]})
        eventually(lambda: len(mirrored.files()) == 2, "both files")
        files = [yaml.safe_load(text) for text in mirrored.files().values()]
        for document in files:
            answer = admin_user(mirrored).send(
                document, dryRun="All", fieldManager="again", force="false"
            )
            assert answer.ok, answer.text
            assert _comparable(answer.object) == _live(mirrored, document)
    (widget,) = (document for document in files if document["kind"] == widgets.kind)
    assert widget["spec"]["nodeSets"] == node_sets
    assert widget["spec"]["podTemplate"] == {"metadata": {"labels": {"a": "b"}}, "spec": {}}


def _changes_nothing(mirrored: MirroredNamespace, document: dict[str, Any]) -> bool:
    """Whether a dry run gives back the live object; a controller may write it meanwhile."""
    before = _live(mirrored, document)
    answer = admin_user(mirrored).send(document, dryRun="All", fieldManager="again")
    assert answer.ok, f"{document['kind']}: {answer.text}"
    return _comparable(answer.object) in (before, _live(mirrored, document))


def _live(mirrored: MirroredNamespace, document: dict[str, Any]) -> dict[str, Any]:
    person = admin_user(mirrored)
    path = person.path(
        document["kind"], document["metadata"]["name"], api_version=document["apiVersion"]
    )
    return _comparable(person.request("GET", path).object)


def _comparable(obj: dict[str, Any]) -> dict[str, Any]:
    """Without what a dry run is bound to change: who owns which field."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


_NOISE = [
    {"type": "helm.sh/release.v1", "metadata": {"name": "sh.helm.release.v1.web.v1"}},
    {
        "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": "token",
            "annotations": {"kubernetes.io/service-account.name": "default"},
        },
    },
]


@pytest.mark.scenario("A49")
def test_what_machinery_makes_is_left_out(mirrored: MirroredNamespace, operator: Operator) -> None:
    """No ReplicaSet, root CA, Helm release or token; includeOwned brings the ReplicaSet."""
    person, namespace = admin_user(mirrored), mirrored.namespace
    secrets = [{"apiVersion": "v1", "kind": "Secret", **secret} for secret in _NOISE]
    for secret in secrets:
        assert person.request("POST", person.path("secrets"), secret).ok
    deployment = sample_objects.documents(sample_objects.PRESET, namespace)[0]
    mirrored.admin.apply(deployment)
    replicas = person.path("replicasets")
    found = eventually(lambda: person.request("GET", replicas).object["items"], "the ReplicaSet")
    skipped = {reason: operator.metric(_skips(reason)) for reason in ("Noise", "ControllerOwned")}
    item = {"resources": ["configmaps", "secrets", "deployments", "replicasets"]}
    mirrored.configured(item)
    wanted = {
        f"apps/v1/deployments/{namespace}/web.yaml",
        f"v1/secrets/{namespace}/git-credentials.yaml",
    }
    eventually(lambda: mirrored.files().keys() >= wanted, "what people made")
    assert set(mirrored.files()) == wanted
    for reason, before in skipped.items():
        assert operator.metric(_skips(reason)) > before
    mirrored.admin.apply(mirrored.watch_rule({**item, "includeOwned": True}))
    owned = f"apps/v1/replicasets/{namespace}/{found[0]['metadata']['name']}.yaml"
    eventually(lambda: owned in mirrored.files(), "the ReplicaSet's file")


def _skips(reason: str) -> str:
    return f'windlass_mirror_skips_total{{reason="{reason}"}}'


@pytest.mark.scenario("A49")
def test_automanaged_api_services_are_left_out(platform: MirroredNamespace) -> None:
    """The API server manages its own APIServices; they are not user intent."""
    configure_mirror(platform, {"scope": "Cluster", "resources": ["apiservices", "storageclasses"]})
    person = admin_user(platform)
    document = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": platform.repository.removesuffix(".git")},
        "provisioner": "example.org/disk",
    }
    person.apply(document)
    try:
        eventually(platform.files, "the marker")
        assert [path.split("/")[2] for path in platform.files()] == ["storageclasses"]
    finally:
        person.delete("storageclass", document["metadata"]["name"])
