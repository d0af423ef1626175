"""The URL that the API server calls: kept in a Secret, restored, never declared."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.processes.operator import Operator, eventually
from tests.support.reverser import forged_reviews
from tests.support.reverser.api_users import admin_user
from tests.support.reverser.author_proof import prove_author
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass.api.install.installation import Installation
from windlass.objects.names import GVR
from windlass_dev.cluster.installer import install
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

HOOK = (
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/"
    + Installation().webhook_configuration
)
SECRET = f"/api/v1/namespaces/{Installation().namespace}/secrets/{Installation().webhook_secret}"
CONFIG_MAPS = GVR("", "v1", "configmaps")
MERGE = "application/merge-patch+json"


@pytest.fixture(autouse=True)
def _proves_again(operator: Operator) -> Iterator[None]:
    """What a test does to the webhook costs authors for a moment; others do not pay for it."""
    yield
    proves = "windlass_mirror_authors_provable"
    eventually(lambda: operator.metric(proves) == 1.0, "provable authors", seconds=30.0)


def _hook(cluster: LocalCluster) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.api.request(HOOK).text)
    return found


def test_a_changed_webhook_configuration_is_restored(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """The path and the authority come back, and with them the authors."""
    mirrored.configured({"resources": ["configmaps"]})
    admin, before = admin_user(mirrored), _hook(mirrored.cluster)["webhooks"][0]["clientConfig"]
    root = before["url"].partition("/process")[0]
    hooks = _hook(mirrored.cluster)["webhooks"]
    hooks[0]["clientConfig"] = {"url": f"{root}/elsewhere"}
    assert admin.request("PATCH", HOOK, {"webhooks": hooks}, content_type=MERGE).ok
    eventually(lambda: forged_reviews.webhook_url(mirrored.cluster) == before["url"], "the path")
    now = _hook(mirrored.cluster)["webhooks"][0]["clientConfig"]
    assert now["caBundle"].startswith(before["caBundle"][:100])
    _prove_alice(mirrored, operator)


def _prove_alice(mirrored: MirroredNamespace, operator: Operator) -> None:
    """Prove that alice is the author of what she creates from now on."""

    def create(number: int) -> str:
        mirrored.user("alice").apply(mirrored.config_map(f"after-{number}", a="1"))
        return f"[CREATE] v1/configmaps/after-{number}"

    prove_author(mirrored, operator, "alice", create)


@pytest.mark.parametrize("narrowed", ["resources", "none"])
def test_a_narrowed_webhook_configuration_proves_no_author(
    mirrored: MirroredNamespace, operator: Operator, narrowed: str
) -> None:
    """Changes are unresolved while it sends less than the shipped one, and exact afterwards."""
    mirrored.configured({"resources": ["configmaps"]})
    admin, shipped = admin_user(mirrored), _hook(mirrored.cluster)["webhooks"]
    hooks = copy.deepcopy(shipped) if narrowed == "resources" else []
    for hook in hooks:
        hook["rules"][0]["resources"] = ["*"]
    assert admin.request("PATCH", HOOK, {"webhooks": hooks}, content_type=MERGE).ok
    try:
        proves = "windlass_mirror_authors_provable"
        eventually(lambda: operator.metric(proves) == 0.0, "authors that cannot be proven")
        mirrored.user("alice").apply(mirrored.config_map("during", a="1"))
        during = mirrored.await_commit("[CREATE] v1/configmaps/during by user/(unresolved)")
        assert during.trailer("Unresolved") == "RecordsLost"
        assert "differs from the shipped one; apply deploy/webhook again" in (
            operator.log.read_text()
        )
    finally:
        assert admin.request("PATCH", HOOK, {"webhooks": shipped}, content_type=MERGE).ok
    _prove_alice(mirrored, operator)


async def test_installing_again_keeps_the_webhook_path(
    cluster: LocalCluster, operator: Operator
) -> None:
    """The path is no part of what is declared, so declaring it again changes nothing."""
    del operator
    before = _hook(cluster)
    await install(cluster, Installation())
    after = _hook(cluster)
    assert after["webhooks"] == before["webhooks"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


def test_deleting_the_secret_rotates_the_path_with_an_overlap(
    mirrored: MirroredNamespace,
) -> None:
    """Deleting it rotates the path; requests on the old path are accepted for a while."""
    cluster = mirrored.cluster
    old = forged_reviews.webhook_url(cluster)
    assert cluster.api.request(SECRET, method="DELETE").ok
    eventually(lambda: forged_reviews.webhook_url(cluster) != old, "another path")
    body = forged_reviews.admission_review("alice", CONFIG_MAPS, None, mirrored.config_map("x"))
    new = forged_reviews.webhook_url(cluster)
    assert [forged_reviews.post_review(url, body)[0] for url in (new, old, new + "0")] == [
        200,
        200,
        404,
    ]
    kept = json.loads(cluster.api.request(SECRET).text)["data"]
    assert kept.keys() >= {"ca.crt", "ca.key", "tls.crt", "tls.key", "path", "previous-path"}
