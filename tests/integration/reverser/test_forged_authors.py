"""A review that the API server did not send can only make an author ambiguous.

Each test posts a forged review that names alice and fits the change that follows in every
part, then has another user make that change.
"""

from __future__ import annotations

import copy
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.git.http_server import RunningGitServer
from tests.support.processes.operator import Operator, eventually
from tests.support.reverser import forged_reviews
from tests.support.reverser.api_users import ApiMirroredNamespace, ApiUser, admin_user
from tests.support.reverser.author_proof import (
    UNRESOLVED,
    ExpectedAuthor,
    prove_author,
    prove_authors,
)
from tests.support.reverser.mirrored_namespace import GROUP, MirroredNamespace
from windlass.objects.names import GVR
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

CONFIG_MAPS = GVR("", "v1", "configmaps")
DEPLOYMENTS = GVR("apps", "v1", "deployments")
PODS = GVR("", "v1", "pods")
MANY = 1030


@pytest.fixture
def system(
    cluster: LocalCluster, operator: Operator, git_host: RunningGitServer
) -> Iterator[MirroredNamespace]:
    """A mirror of kube-system, about which the API server asks no webhook of ours."""
    del operator
    mirrored = ApiMirroredNamespace(cluster, git_host, "kube-system", "kube-system.git")
    try:
        yield mirrored
    finally:
        for plural in ("watchrules", "gitdestinations", "gitrepoconfigs"):
            cluster.api.request(f"/apis/{GROUP}/namespaces/kube-system/{plural}", method="DELETE")
        for kind in ("secrets/git-credentials", "configmaps/prize"):
            cluster.api.request(f"/api/v1/namespaces/kube-system/{kind}", method="DELETE")


def test_a_review_that_claims_another_namespace_proves_nothing(system: MirroredNamespace) -> None:
    """The namespace of the watched object decides whether admission requests cover it."""
    system.configured({"resources": ["configmaps"]})
    admin = admin_user(system)
    admin.apply(system.config_map("prize", owner="nobody"))
    system.await_commit(f"[CREATE] v1/configmaps/prize by user/{UNRESOLVED}")
    old = admin.get("configmap", "prize")
    claimed = {**old, "data": {"owner": "admin"}}
    forged_reviews.submit_forged_review(
        system.cluster, "alice", CONFIG_MAPS, old, claimed, namespace="default"
    )
    elsewhere = copy.deepcopy(claimed)
    elsewhere["metadata"]["namespace"] = "default"
    forged_reviews.submit_forged_review(system.cluster, "alice", CONFIG_MAPS, old, elsewhere)
    admin.merge("configmap", "prize", {"data": {"owner": "admin"}})
    path = "v1/configmaps/kube-system/prize.yaml"
    eventually(lambda: "owner: admin" in system.file(path), "the change")
    _assert_last(system, UNRESOLVED)
    assert system.commits()[0].trailer("Unresolved") == "NamespaceNotCovered"


def test_an_annotation_through_the_status_has_its_author(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """Changes by a subresource are recorded as well, so a forged review is contradicted."""
    mirrored.configured({"resources": ["deployments"]})
    admin = admin_user(mirrored)
    admin.apply(_deployment(mirrored, "prize"), _deployment(mirrored, "honest"))
    eventually(lambda: len(mirrored.files()) == 2, "two files")

    def annotate(number: int) -> str:
        patch = {"metadata": {"annotations": {"example.org/owner": f"admin-{number}"}}}
        admin.merge("deployment", "honest", patch, "status")
        return "[UPDATE] apps/v1/deployments/honest"

    prove_author(mirrored, operator, "admin", annotate)
    # A status that its controller writes later would be the forged review's wrong predecessor.
    eventually(
        lambda: "NewReplicaSetAvailable" in str(admin.get("deployment", "prize")["status"]),
        "the last status of its controller",
    )
    old = admin.get("deployment", "prize")
    claimed = copy.deepcopy(old)
    claimed["metadata"].setdefault("annotations", {})["example.org/owner"] = "admin"
    forged_reviews.submit_forged_review(mirrored.cluster, "alice", DEPLOYMENTS, old, claimed)
    patch = {"metadata": {"annotations": {"example.org/owner": "admin"}}}
    admin.merge("deployment", "prize", patch, "status")
    path = f"apps/v1/deployments/{mirrored.namespace}/prize.yaml"
    eventually(lambda: "example.org/owner" in mirrored.file(path), "the change")
    _assert_last(mirrored, UNRESOLVED)


def test_idle_connections_keep_no_review_out(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """With more of them than the server keeps, the true review is still recorded."""
    mirrored.configured({"resources": ["configmaps"]})
    admin = admin_user(mirrored)

    def update_beside_idle_connections(number: int) -> list[ExpectedAuthor]:
        honest = f"honest-{number}"
        for name in ("prize", honest):
            admin.apply(mirrored.config_map(name, owner="-"))
        eventually(lambda: list(_owners(mirrored, "prize", honest)) == ["-", "-"], "two files")
        _claim_next_owner(mirrored, admin)
        with forged_reviews.idle_connections(forged_reviews.webhook_url(mirrored.cluster), MANY):
            _change_owner(mirrored, admin)
            _assert_last(mirrored, UNRESOLVED)
            admin.merge("configmap", honest, {"data": {"owner": "admin"}})
            return [(mirrored.await_change(f"[UPDATE] v1/configmaps/{honest}"), "admin")]

    prove_authors(operator, update_beside_idle_connections)


def test_a_backlog_of_reviews_hides_no_contradiction(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """The true record waits behind large reviews: until it arrives, nobody is named."""
    mirrored.configured({"resources": ["configmaps"]})
    admin = admin_user(mirrored)
    admin.apply(mirrored.config_map("prize", owner="-"))
    eventually(mirrored.files, "its file")
    _claim_next_owner(mirrored, admin)
    large = {
        "metadata": {"name": "large", "namespace": mirrored.namespace, "uid": "none"},
        "data": {f"key-{number}": "value" for number in range(30_000)},
    }
    review = forged_reviews.admission_review("alice", CONFIG_MAPS, None, large)
    url = forged_reviews.webhook_url(mirrored.cluster)
    with forged_reviews.simultaneous_reviews(url, review, count=60):
        _change_owner(mirrored, admin)
    _assert_last(mirrored, UNRESOLVED)
    operator.await_provable()


def test_connections_beyond_all_descriptors_are_a_record_gap(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """While no connection can be accepted, the author may be a user without a record."""
    mirrored.configured({"resources": ["configmaps"]})
    admin = admin_user(mirrored)
    admin.apply(mirrored.config_map("prize", owner="-"))
    eventually(mirrored.files, "its file")
    url = forged_reviews.webhook_url(mirrored.cluster)
    webhook_pid = eventually(operator.webhook_pid, "the admission webhook")
    _claim_next_owner(mirrored, admin)
    with _no_descriptors_left(webhook_pid), forged_reviews.open_connections(url, 20):
        _change_owner(mirrored, admin)
    assert "alice" not in mirrored.git("log", "--format=fuller", mirrored.branch)
    assert mirrored.commits()[0].trailer("Unresolved") == "RecordsLost"
    # The loop reports every connection of its queue; one line each would hold up all answers.
    lines = [line for line in operator.log.read_text().splitlines() if "accept" in line]
    assert 1 <= len(lines) <= 30
    operator.await_provable()


@contextmanager
def _no_descriptors_left(pid: int) -> Iterator[None]:
    """The process may open no file more than it has open now."""
    open_now = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_now, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def test_what_binding_and_eviction_change_has_no_author(mirrored: MirroredNamespace) -> None:
    """The API server sends no admission request for the Pod itself, so no record counts."""
    mirrored.configured({"resources": ["pods"]})
    admin = admin_user(mirrored)
    eventually(lambda: admin.send(_pod(mirrored)).ok, "a pod")
    eventually(mirrored.files, "its file")
    old = admin.get("pod", "prize")
    claimed = copy.deepcopy(old)
    claimed["metadata"].setdefault("annotations", {})["example.org/owner"] = "admin"
    forged_reviews.submit_forged_review(mirrored.cluster, "alice", PODS, old, claimed)
    _post(admin, mirrored, "binding", _binding())
    (path,) = mirrored.files()
    eventually(lambda: "example.org/owner" in mirrored.file(path), "the change")
    _assert_last(mirrored, UNRESOLVED)
    admin.merge("pod", "prize", {"metadata": {"finalizers": ["example.org/wait"]}})
    _post(admin, mirrored, "eviction", _eviction())
    for old in _predecessors(admin.get("pod", "prize")):
        forged_reviews.submit_forged_review(mirrored.cluster, "alice", PODS, old, None)
    eventually(lambda: not mirrored.files(), "no file")
    _assert_last(mirrored, UNRESOLVED)
    assert mirrored.commits()[0].trailer("Unresolved") == "SubresourceNotCovered"
    admin.merge("pod", "prize", {"metadata": {"finalizers": None}})


def test_only_readers_of_the_configuration_can_post_a_review(mirrored: MirroredNamespace) -> None:
    """Without the last part of the path a review is not even read."""
    url = forged_reviews.webhook_url(mirrored.cluster)
    root, _, token = url.rpartition("/")
    assert re.fullmatch("[0-9a-f]{32}", token)
    body = forged_reviews.admission_review("alice", CONFIG_MAPS, None, mirrored.config_map("prize"))
    for guess in (root, f"{root}/", f"{root}/{token[::-1]}", f"{root}/{token}/"):
        assert forged_reviews.post_review(guess, body)[0] == 404, guess
    assert forged_reviews.post_review(url, body)[0] == 200


def _claim_next_owner(mirrored: MirroredNamespace, admin: ApiUser) -> None:
    """Post alice's forged review of the change that _change_owner makes."""
    old = admin.get("configmap", "prize")
    claimed = {**old, "data": {"owner": "admin"}}
    forged_reviews.submit_forged_review(mirrored.cluster, "alice", CONFIG_MAPS, old, claimed)


def _owners(mirrored: MirroredNamespace, *names: str) -> Iterator[str]:
    """The owner in the file of each ConfigMap that has one."""
    files = mirrored.files()
    for name in names:
        text = files.get(f"v1/configmaps/{mirrored.namespace}/{name}.yaml", "")
        yield from re.findall(r"^  owner: \W?([\w-]+)", text, re.MULTILINE)


def _change_owner(mirrored: MirroredNamespace, admin: ApiUser) -> None:
    admin.merge("configmap", "prize", {"data": {"owner": "admin"}})
    path = f"v1/configmaps/{mirrored.namespace}/prize.yaml"
    eventually(lambda: "owner: admin" in mirrored.file(path), "the change")


def _pod(mirrored: MirroredNamespace) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "prize", "namespace": mirrored.namespace},
        "spec": {"containers": [{"name": "c", "image": "registry.invalid/c:1"}]},
    }


def _binding() -> dict[str, Any]:
    metadata = {"name": "prize", "annotations": {"example.org/owner": "admin"}}
    target = {"apiVersion": "v1", "kind": "Node", "name": "nowhere"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def _eviction() -> dict[str, Any]:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "prize"}}


def _predecessors(pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What was there before the deletion: the eviction itself writes a version in between."""
    for back in range(1, 6):
        old = copy.deepcopy(pod)
        del old["metadata"]["deletionTimestamp"]
        old["metadata"]["resourceVersion"] = str(int(pod["metadata"]["resourceVersion"]) - back)
        yield old


def _post(
    admin: ApiUser, mirrored: MirroredNamespace, subresource: str, body: dict[str, Any]
) -> None:
    path = admin.path("pod", "prize", namespace=mirrored.namespace)
    done = admin.request("POST", f"{path}/{subresource}", body)
    assert done.ok, done.text


def _deployment(mirrored: MirroredNamespace, name: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "c", "image": "registry.invalid/c:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": mirrored.namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def _assert_last(mirrored: MirroredNamespace, author: str) -> None:
    assert mirrored.commits()[0].author == author
    assert "alice" not in mirrored.git("log", "--format=fuller", mirrored.branch)
