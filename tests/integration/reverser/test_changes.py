"""People change things; their commits appear on the server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.processes.operator import Operator, eventually
from tests.support.reverser.author_proof import ExpectedAuthor, prove_author, prove_authors
from tests.support.reverser.mirrored_namespace import MirroredNamespace

pytestmark = pytest.mark.cluster


@pytest.mark.scenario("A31", "A32")
def test_create_update_delete_are_commits_of_the_person(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """Each change of a ConfigMap by kubectl is one commit by the user who made it."""
    mirrored.configured({"resources": ["configmaps"]})
    alice, bob = mirrored.user("alice"), mirrored.user("bob")

    def change_by_kubectl(number: int) -> list[ExpectedAuthor]:
        name = f"hello-{number}"
        alice.kubectl("create", "configmap", name, "--from-literal=greeting=hi")
        created = mirrored.await_change(f"[CREATE] v1/configmaps/{name}")
        path = f"v1/configmaps/{mirrored.namespace}/{name}.yaml"
        assert "greeting: hi" in mirrored.file(path)
        bob.kubectl("patch", "configmap", name, "-p", '{"data":{"greeting":"moin"}}')
        updated = mirrored.await_change(f"[UPDATE] v1/configmaps/{name}")
        assert "greeting: moin" in mirrored.file(path)
        alice.kubectl("delete", "configmap", name)
        deleted = mirrored.await_change(f"[DELETE] v1/configmaps/{name}")
        assert path not in mirrored.files()
        return [(created, "alice"), (updated, "bob"), (deleted, "alice")]

    commits = prove_authors(operator, change_by_kubectl)
    for commit, person in zip(commits, ("alice", "bob", "alice"), strict=True):
        assert commit.email == f"{person}@windlass.invalid"
        assert commit.trailer("User") == person


@pytest.mark.scenario("A30", "A4")
def test_objects_older_than_the_rule_arrive_in_one_sync(mirrored: MirroredNamespace) -> None:
    """An empty repository gets a root commit that holds every live object."""
    alice = mirrored.user("alice")
    alice.apply(mirrored.config_map("one", a="1"), mirrored.config_map("two", b="2"))
    mirrored.configured({"resources": ["configmaps"]})
    sync = mirrored.await_commit(f"[SYNC] 2 objects (+2 ~0 -0) in {mirrored.folder}")
    assert sync.trailer("Attribution") == "sync"
    assert sync.author == "windlass"
    assert set(mirrored.files()) == {
        f"v1/configmaps/{mirrored.namespace}/one.yaml",
        f"v1/configmaps/{mirrored.namespace}/two.yaml",
    }
    claim = mirrored.git("show", f"main:{mirrored.folder}/.windlass-claim")
    assert f"destination: {mirrored.namespace}/destination" in claim


@pytest.mark.scenario("A37")
def test_scale_is_credited_to_the_person(mirrored: MirroredNamespace, operator: Operator) -> None:
    """Scaling goes through a subresource and still has an exact author."""
    mirrored.configured({"resources": ["deployments"]})
    alice, bob = mirrored.user("alice"), mirrored.user("bob")
    alice.apply(_deployment(mirrored, replicas=1))
    mirrored.await_change("[CREATE] apps/v1/deployments/web")

    def scale(number: int) -> list[ExpectedAuthor]:
        replicas, earlier = 4 + number, mirrored.commits()
        bob.merge("deployment", "web", {"spec": {"replicas": replicas}}, "scale")
        commit = mirrored.await_change("[UPDATE] apps/v1/deployments/web", earlier=earlier)
        path = f"apps/v1/deployments/{mirrored.namespace}/web.yaml"
        assert f"replicas: {replicas}" in mirrored.file(path)
        return [(commit, "bob")]

    prove_authors(operator, scale)


@pytest.mark.scenario("A35")
def test_a_finalizer_delays_neither_the_removal_nor_changes_its_author(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """The file goes at the deletionTimestamp; later finalizer edits make no commit."""
    mirrored.configured({"resources": ["configmaps"]})
    alice, bob = mirrored.user("alice"), mirrored.user("bob")
    names = []

    def delete_held(number: int) -> str:
        names.append(f"held-{number}")
        held = mirrored.config_map(names[-1], a="1")
        held["metadata"]["finalizers"] = ["example.org/held"]
        alice.apply(held)
        mirrored.await_change(f"[CREATE] v1/configmaps/{names[-1]}")
        bob.delete("configmap", names[-1])
        return f"[DELETE] v1/configmaps/{names[-1]}"

    prove_author(mirrored, operator, "bob", delete_held)
    before = mirrored.subjects()
    for name in names:
        alice.merge("configmap", name, {"metadata": {"finalizers": None}})
    alice.apply(mirrored.config_map("marker", a="1"))
    marker = mirrored.await_change("[CREATE] v1/configmaps/marker")
    assert mirrored.subjects() == [marker.subject, *before]


@pytest.mark.scenario("A38")
def test_deletecollection_is_one_commit_of_the_caller(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """Fifty objects that are deleted together go in one commit by the user who deleted them."""
    mirrored.configured({"resources": ["configmaps"]})
    alice, bob = mirrored.user("alice"), mirrored.user("bob")

    def delete_fifty(number: int) -> list[ExpectedAuthor]:
        label = f"many-{number}"
        many = [mirrored.config_map(f"{label}-{index}", n=str(index)) for index in range(50)]
        for document in many:
            document["metadata"]["labels"] = {"set": label}
        alice.apply(*many)
        eventually(lambda: len(mirrored.files()) == 50, "fifty files")
        earlier = len(mirrored.commits())
        assert bob.request("DELETE", bob.path("configmaps"), labelSelector=f"set={label}").ok
        eventually(lambda: not mirrored.files(), "no file")
        return [(commit, "bob") for commit in mirrored.commits()[:-earlier]]

    deletions = [commit.sha for commit in prove_authors(operator, delete_fifty)]
    deleted = ("--diff-filter=D", "--name-only", "--format=")
    files = mirrored.git("show", *deleted, *deletions)
    assert len(files.split()) == 50


@pytest.mark.scenario("A33")
def test_status_only_changes_make_no_commit(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """Status writes leave the branch where it was and are counted as duplicates."""
    mirrored.configured({"resources": ["deployments"]})
    alice = mirrored.user("alice")
    alice.apply(_deployment(mirrored))
    mirrored.await_change("[CREATE] apps/v1/deployments/web")
    before = mirrored.commits()[0].sha
    skipped = operator.metric("gitopsreverser_watch_duplicates_skipped_total")
    for number in range(20):
        alice.merge("deployment", "web", {"status": {"observedGeneration": number + 100}}, "status")
    eventually(
        lambda: operator.metric("gitopsreverser_watch_duplicates_skipped_total") >= skipped + 20,
        "twenty duplicates",
    )
    assert mirrored.commits()[0].sha == before


@pytest.mark.scenario("A51", "A48")
def test_secret_values_never_leave_and_cannot_come_back(mirrored: MirroredNamespace) -> None:
    """A redacted file shows that a value changed, nothing else, and cannot be applied."""
    mirrored.configured({"resources": ["secrets"]})
    alice = mirrored.user("alice")
    alice.apply(_secret(mirrored, a="canary-7731", b="canary-7731"))
    mirrored.await_change("[CREATE] v1/secrets/door")
    path = f"v1/secrets/{mirrored.namespace}/door.yaml"
    first = mirrored.file(path)
    digests = [line.split("hmac:")[1] for line in first.splitlines() if "hmac:" in line]
    assert len(set(digests)) == 2, "equal values under two keys have different digests"
    alice.merge("secret", "door", {"stringData": {"a": "canary-9942"}})
    mirrored.await_change("[UPDATE] v1/secrets/door")
    second = mirrored.file(path)
    assert first != second
    refused = alice.try_kubectl("apply", "-f", "-", stdin=second)
    assert refused.returncode != 0
    everything = mirrored.git("cat-file", "--batch-all-objects", "--batch")
    assert "canary" not in everything
    assert "Y2FuYXJ5" not in everything


@pytest.mark.scenario("A23", "A22")
def test_operation_masks_follow_the_git_transition(mirrored: MirroredNamespace) -> None:
    """With operations [CREATE] a new object is committed, its update and deletion are not."""
    mirrored.configured({"resources": ["configmaps"], "operations": ["CREATE"]})
    alice = mirrored.user("alice")
    alice.apply(mirrored.config_map("kept", a="1"))
    mirrored.await_change("[CREATE] v1/configmaps/kept")
    alice.merge("configmap", "kept", {"data": {"a": "2"}})
    alice.delete("configmap", "kept")
    alice.apply(mirrored.config_map("marker", a="1"))
    mirrored.await_change("[CREATE] v1/configmaps/marker")
    assert 'a: "1"' in mirrored.file(f"v1/configmaps/{mirrored.namespace}/kept.yaml")
    assert len(mirrored.commits()) == 2


def _deployment(mirrored: MirroredNamespace, replicas: int = 1) -> dict[str, Any]:
    labels = {"app": "web"}
    containers = [{"name": "web", "image": "registry.invalid/web"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": mirrored.namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


def _secret(mirrored: MirroredNamespace, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "door", "namespace": mirrored.namespace},
        "stringData": data,
    }
