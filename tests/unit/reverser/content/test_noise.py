"""Which objects are skipped as noise, and under which code."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.reverser.content.test_sanitize_rules import live
from windlass.reverser.content import noise, sanitize

HELM = "sh.helm.release.v1.web.v1"
LEADER = {"control-plane.alpha.kubernetes.io/leader": "{}"}
RBAC = "rbac.authorization.k8s.io"
NETWORKING = "networking.k8s.io"
ALLOCATED = {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}


def live_object(kind: str, name: str, group: str = "", **more: Any) -> dict[str, Any]:
    """A small object; `labels`, `annotations` and `namespace` go into its metadata."""
    metadata = {"name": name}
    for field in ("labels", "annotations", "namespace"):
        if field in more:
            metadata[field] = more.pop(field)
    api_version = f"{group}/v1" if group else "v1"
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


@pytest.mark.scenario("A49")
@pytest.mark.parametrize(
    ("obj", "code"),
    [
        (live_object("ConfigMap", "kube-root-ca.crt"), "ClusterCA"),
        (live_object("ConfigMap", "openshift-service-ca.crt"), "ClusterCA"),
        (live_object("ConfigMap", "extension-apiserver-authentication"), "ServerAuthentication"),
        (live_object("ConfigMap", "cluster-autoscaler-status"), "AutoscalerStatus"),
        (
            live_object("ConfigMap", "kube-apiserver-legacy-service-account-token-tracking"),
            "TokenTracking",
        ),
        (
            live_object("ConfigMap", HELM, labels={"owner": "helm"}, data={"release": "x"}),
            "HelmRelease",
        ),
        (live_object("ConfigMap", "app.v1", labels={"owner": "helm"}, data={"release": "x"}), None),
        (live_object("ConfigMap", HELM, data={"release": "x"}), None),
        (
            live_object("ConfigMap", HELM, labels={"owner": "helm"}, data={"release": "", "a": ""}),
            None,
        ),
        (live_object("ConfigMap", HELM, labels={"owner": "helm"}), None),
        (
            live_object("Secret", "t", type="kubernetes.io/service-account-token"),
            "ServiceAccountToken",
        ),
        (live_object("Secret", "t", type="bootstrap.kubernetes.io/token"), "BootstrapToken"),
        (live_object("Secret", HELM, type="helm.sh/release.v1"), "HelmRelease"),
        (live_object("Secret", "t", type="helm.sh/release.v1"), None),
        (live_object("Secret", HELM, type="Opaque", labels={"owner": "helm"}), None),
        (live_object("Secret", "t", type="Opaque"), None),
        (live_object("Service", "kubernetes", namespace="default"), "ApiServerService"),
        (live_object("Service", "kubernetes", namespace="other"), None),
        (live_object("ServiceAccount", "default"), "DefaultServiceAccount"),
        (live_object("ServiceAccount", "default", imagePullSecrets=[{"name": "x"}]), None),
        (live_object("ServiceAccount", "default", labels={"a": "b"}), None),
        (live_object("ServiceAccount", "other"), None),
        (live_object("ConfigMap", "settings"), None),
        (live_object("ConfigMap", "kube-root-ca.crt", group="example.org"), None),
        (
            live_object(
                "APIService",
                "v1.apps",
                group="apiregistration.k8s.io",
                labels={"kube-aggregator.kubernetes.io/automanaged": "onstart"},
            ),
            "Automanaged",
        ),
        (
            live_object(
                "APIService",
                "v1.example.org",
                group="apiregistration.k8s.io",
                labels={"kube-aggregator.kubernetes.io/automanaged": "true"},
                spec={"group": "example.org"},
            ),
            "Automanaged",
        ),
        (
            live_object(
                "APIService",
                "v1.example.org",
                group="apiregistration.k8s.io",
                labels={"kube-aggregator.kubernetes.io/automanaged": "true"},
                spec={"service": {"name": "mine", "namespace": "default"}},
            ),
            None,
        ),
        (
            live_object(
                "APIService",
                "v1.apps",
                group="apiregistration.k8s.io",
                labels={"kube-aggregator.kubernetes.io/automanaged": "yes"},
            ),
            None,
        ),
        (live_object("Endpoints", "e", annotations=LEADER), "LeaderRecord"),
        (live_object("ConfigMap", "e", annotations=LEADER), "LeaderRecord"),
        (
            live_object("Lease", "e", group="coordination.k8s.io", annotations=LEADER),
            "LeaderRecord",
        ),
        (live_object("Secret", "e", annotations=LEADER), None),
        (live_object("ConfigMap", "e", group="example.org", annotations=LEADER), None),
        (
            live_object("ClusterRoleBinding", "e", group=RBAC, annotations=LEADER),
            None,
        ),
        (live_object("IPAddress", "10.0.0.1", group=NETWORKING, labels=ALLOCATED), "IPAllocation"),
        (live_object("IPAddress", "10.0.0.1", group=NETWORKING), None),
        (live_object("Ingress", "a", group=NETWORKING, labels=ALLOCATED), None),
        (live_object("ClusterRole", "system:node", group=RBAC), None),
    ],
)
def test_noise_has_a_code(obj: dict[str, Any], code: str | None) -> None:
    """Each kind of noise has its own word; what matters has none."""
    assert noise.noise_reason(obj) == code
    assert code is None or noise.DESCRIPTIONS[code]


@pytest.mark.scenario("A49")
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("configmaps-root-ca", "ClusterCA"),
        ("serviceaccounts-default", "DefaultServiceAccount"),
        ("services-kubernetes", "ApiServerService"),
        ("apiservices.apiregistration.k8s.io-automanaged", "Automanaged"),
        ("apiservices.apiregistration.k8s.io", None),
        ("serviceaccounts", None),
        ("secrets", None),
    ],
)
def test_noise_of_a_real_cluster_is_recognised(name: str, code: str | None) -> None:
    """Objects as a real API server returns them are classified."""
    assert noise.noise_reason(live(name)) == code


@pytest.mark.scenario("A49")
def test_replica_set_of_a_deployment_is_controller_owned() -> None:
    """The Deployment's ReplicaSet is its own, a hand-made one is the user's."""
    assert sanitize.is_controller_owned(live("replicasets.apps-owned"))
    assert not sanitize.is_controller_owned(live("replicasets.apps"))


@pytest.mark.parametrize(
    ("kind", "group", "owned"),
    [
        ("Role", RBAC, False),
        ("ClusterRoleBinding", RBAC, False),
        ("ValidatingWebhookConfiguration", "admissionregistration.k8s.io", False),
        ("MutatingAdmissionPolicyBinding", "admissionregistration.k8s.io", False),
        ("ConfigMap", "", True),
        ("ClusterRole", "example.org", True),
    ],
)
def test_rbac_objects_are_never_hidden_by_an_owner(kind: str, group: str, owned: bool) -> None:
    """Anybody who may edit such an object may name a controller as its owner."""
    obj = live_object(kind, "x", group=group)
    obj["metadata"]["ownerReferences"] = [{"kind": "A", "name": "b", "controller": True}]
    assert sanitize.is_controller_owned(obj) is owned


def test_filter_off_still_hides_own_objects() -> None:
    """The salt is never mirrored, whatever the filter says."""
    own: noise.OwnObjects = frozenset([("Secret", "windlass-system", "windlass-mirror-salt")])
    salt = live_object("Secret", "windlass-mirror-salt", namespace="windlass-system")
    assert noise.noise_reason(salt, own=own, filtered=False) == noise.OWN_OBJECT
    assert (
        noise.noise_reason(live_object("ServiceAccount", "default"), own=own, filtered=False)
        is None
    )
    assert (
        noise.noise_reason(live_object("Secret", "windlass-mirror-salt", namespace="x"), own=own)
        is None
    )
