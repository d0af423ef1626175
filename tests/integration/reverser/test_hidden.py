"""A live object cannot be hidden from Git, nor recorded as deleted, by a mark on it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.environments import helm
from tests.support.processes.operator import eventually
from tests.support.reverser.api_users import ApiUser, admin_user
from tests.support.reverser.central_repository import configure_mirror
from tests.support.reverser.leftover_folder import write_leftover_folder
from tests.support.reverser.mirrored_namespace import MirroredNamespace

pytestmark = [pytest.mark.cluster, pytest.mark.scenario("A49")]

RBAC = "rbac.authorization.k8s.io/v1"
LEADER = {"control-plane.alpha.kubernetes.io/leader": "{}"}


def _owner(person: ApiUser) -> list[dict[str, Any]]:
    """A controller that really exists, or the garbage collector would act."""
    metadata = {"name": "owner", "namespace": person.namespace}
    person.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    uid = person.get("configmap", "owner")["metadata"]["uid"]
    row = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    return [{**row, "controller": True}]


def _role(namespace: str, name: str) -> dict[str, Any]:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": rules}


def test_a_leader_annotation_hides_no_binding(platform: MirroredNamespace, namespace: str) -> None:
    """The ClusterRoleBinding keeps its file, and no commit says that it was deleted."""
    person = admin_user(platform)
    binding = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{namespace}-a"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
    }
    other = {**binding, "metadata": {"name": f"{namespace}-b"}}
    folder = f"{RBAC}/clusterrolebindings"
    person.apply(binding)
    try:
        configure_mirror(platform, {"scope": "Cluster", "resources": ["clusterrolebindings"]})
        path = f"{folder}/{namespace}-a.yaml"
        eventually(lambda: path in platform.files(), "its file")
        patch = {"metadata": {"annotations": LEADER}}
        person.merge("clusterrolebinding", f"{namespace}-a", patch)
        person.apply(other)
        eventually(lambda: f"{folder}/{namespace}-b.yaml" in platform.files(), "a later change")
        assert path in platform.files()
        assert not [subject for subject in platform.subjects() if subject.startswith("[DELETE]")]
    finally:
        for one in (binding, other):
            person.request("DELETE", person.path("clusterrolebinding", one["metadata"]["name"]))


def test_neither_an_owner_nor_a_label_hides_rights_and_settings(
    mirrored: MirroredNamespace,
) -> None:
    """A Role with a controller as owner and a ConfigMap that says `owner: helm` have files."""
    person, namespace = admin_user(mirrored), mirrored.namespace
    role = _role(namespace, "door")
    role["metadata"]["ownerReferences"] = _owner(person)
    settings = mirrored.config_map("settings", a="1")
    settings["metadata"]["labels"] = {"owner": "helm"}
    person.apply(role, settings)
    mirrored.configured({"resources": ["roles", "configmaps"]})
    wanted = {f"{RBAC}/roles/{namespace}/door.yaml", f"v1/configmaps/{namespace}/settings.yaml"}
    eventually(lambda: wanted <= mirrored.files().keys(), "both files")


def test_an_object_that_becomes_owned_is_removed_by_a_sync_with_the_reason(
    mirrored: MirroredNamespace,
) -> None:
    """By an event and by a snapshot: the commit names the reason and no author."""
    person, namespace = admin_user(mirrored), mirrored.namespace
    owners, early = _owner(person), mirrored.config_map("early", a="1")
    write_leftover_folder(mirrored, early, plurals={"ConfigMap": "configmaps"})
    early["metadata"]["ownerReferences"] = owners
    person.apply(early, mirrored.config_map("late", a="1"))
    mirrored.configured({"resources": ["configmaps"]})
    paths = {name: f"v1/configmaps/{namespace}/{name}.yaml" for name in ("early", "late")}
    eventually(lambda: paths["early"] not in mirrored.files(), "the first file gone")
    eventually(lambda: paths["late"] in mirrored.files(), "the second file")
    person.merge("configmap", "late", {"metadata": {"ownerReferences": owners}})
    eventually(lambda: paths["late"] not in mirrored.files(), "the second file gone")
    commits = mirrored.commits()
    for path in paths.values():
        line = f"REMOVE {mirrored.folder}/{path}"
        (commit,) = [commit for commit in commits if line in commit.body]
        assert commit.subject.startswith("[SYNC] ")
        assert "no longer mirrored: owned by a controller" in commit.body
        assert commit.trailer("Attribution") == "sync"
    assert not [subject for subject in mirrored.subjects() if subject.startswith("[DELETE]")]


def test_the_records_of_helm_itself_are_left_out(
    mirrored: MirroredNamespace, tmp_path: Path
) -> None:
    """Releases that helm keeps in Secrets and in ConfigMaps have no file; their objects do."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n"
    for path, content in helm.chart({"map.yaml": text}).items():
        (tmp_path / "sample" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sample" / path).write_bytes(content)
    for driver in ("secret", "configmap"):
        _install(mirrored, tmp_path, driver)
    person, namespace = admin_user(mirrored), mirrored.namespace
    for kind, name in (("secret", "by-secret"), ("configmap", "by-configmap")):
        person.get(kind, f"sh.helm.release.v1.{name}.v1")
    mirrored.configured({"resources": ["configmaps", "secrets"]})
    wanted = {
        f"v1/configmaps/{namespace}/by-secret.yaml",
        f"v1/configmaps/{namespace}/by-configmap.yaml",
        f"v1/secrets/{namespace}/git-credentials.yaml",
    }
    eventually(lambda: mirrored.files().keys() >= wanted, "what the chart holds")
    assert set(mirrored.files()) == wanted


def _install(mirrored: MirroredNamespace, directory: Path, driver: str) -> None:
    done = subprocess.run(
        [
            helm.helm_program(),
            "install",
            f"by-{driver}",
            str(directory / "sample"),
            f"--namespace={mirrored.namespace}",
            f"--kubeconfig={mirrored.cluster.admin_kubeconfig}",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        env={"HELM_DRIVER": driver, "HOME": str(directory), "PATH": os.environ["PATH"]},
    )
    assert done.returncode == 0, done.stderr


def test_addresses_that_the_server_allocates_are_left_out(
    platform: MirroredNamespace, namespace: str
) -> None:
    """An IPAddress that a user made is mirrored, that of a Service's cluster IP is not."""
    person = admin_user(platform)
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"ports": [{"port": 80}]},
    }
    made = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {"name": "192.0.2.77"},
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": "web"}},
    }
    allocated = person.send(service).object["spec"]["clusterIP"]
    assert person.request("GET", person.path("ipaddress", allocated)).ok
    assert person.request("POST", person.path("ipaddress"), made).ok
    try:
        configure_mirror(platform, {"scope": "Cluster", "resources": ["*"]})
        folder = "networking.k8s.io/v1/ipaddresses"
        path = f"{folder}/192.0.2.77.yaml"
        found = eventually(
            lambda: [one for one in platform.files() if one.startswith(folder)], "its file"
        )
        assert found == [path]
    finally:
        person.request("DELETE", person.path("ipaddress", "192.0.2.77"))
