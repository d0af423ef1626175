"""Fields that are removed from an object, and the note that lists them."""

from __future__ import annotations

import pytest

from tests.support.environments import manifests as written
from windlass.environments.bundle import annotation_rules, sanitizer
from windlass.environments.bundle.cluster_access import ClusterAccess
from windlass.objects.names import JSON, Object


def _left_out(
    obj: Object, reach: ClusterAccess | None = None, *, trusted: bool = True
) -> tuple[Object, str]:
    return sanitizer.sanitize_object(obj, reach or ClusterAccess(), trusted=trusted)


@pytest.mark.parametrize(
    ("key", "trusted", "untrusted"),
    [
        ("rollme", True, True),
        ("checksum/config", True, True),
        ("vendor.example/note", True, False),
        ("note.without.domain", True, False),
        ("eks.amazonaws.com/role-arn", False, False),
        ("sub.eks.amazonaws.com/role-arn", False, False),
        ("noteks.amazonaws.com/role-arn", True, False),
        ("io.katacontainers.config.hypervisor.path", False, False),
        ("org.systemd.property.SuccessAction", False, False),
        ("service.kubernetes.io/topology-mode", True, False),
        ("service.kubernetes.io/qcloud-loadbalancer-internal", False, False),
    ],
)
def test_which_annotations_are_kept(key: str, trusted: bool, untrusted: bool) -> None:
    """Known dangerous ones are removed; untrusted Environments keep only harmless ones."""
    assert (
        annotation_rules.disallowed_annotations([key], ClusterAccess(), trusted=True) == []
    ) == trusted
    assert (
        annotation_rules.disallowed_annotations([key], ClusterAccess(), trusted=False) == []
    ) == untrusted


def test_settings_of_the_administrator_win() -> None:
    """Denied before allowed, and both before the built-in list."""
    reach = ClusterAccess(
        allowed_annotations=("eks.amazonaws.com/", "a.example/"),
        denied_annotations=("a.example/secret", "checksum/"),
    )
    keys = ["eks.amazonaws.com/role-arn", "a.example/b", "a.example/secret-x", "checksum/c"]
    for trusted in (True, False):
        assert annotation_rules.disallowed_annotations(keys, reach, trusted=trusted) == keys[2:]


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        (written.make_object("v1", "Pod", "x", spec=written.pod_spec()), ()),
        (written.deployment("x"), ("spec", "template")),
        (written.stateful_set("x"), ("spec", "template")),
        (written.job("x"), ("spec", "template")),
        (written.cron_job("x"), ("spec", "jobTemplate", "spec", "template")),
        (written.service("x"), ()),
        (written.make_object("v1", "ServiceAccount", "x"), ()),
        (written.make_object("v1", "PersistentVolumeClaim", "x"), ()),
    ],
)
def test_pods_services_accounts_and_claims_are_cleaned(obj: Object, path: tuple[str, ...]) -> None:
    """Wherever their metadata is; labels that grant roles are removed too."""
    holder = obj
    for name in path:
        holder = holder[name]
    values = {"eks.amazonaws.com/role-arn": "r", "iam.gke.io/x": "y", "kept": "1"}
    holder["metadata"] = {**holder.get("metadata", {}), "annotations": values, "labels": values}
    cleaned, note = _left_out(obj)
    for name in path:
        cleaned = cleaned[name]
    assert cleaned["metadata"]["annotations"] == {"kept": "1"}
    assert cleaned["metadata"]["labels"] == {"kept": "1"}
    shown = ".".join((*path, "metadata"))
    assert f"{shown}.labels.eks.amazonaws.com/role-arn" in note
    assert f"{shown}.annotations.iam.gke.io/x" in note
    assert holder["metadata"]["annotations"] == values


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    "obj",
    [
        written.make_object("v1", "Secret", "x"),
        written.make_object("v1", "ConfigMap", "x"),
        written.deployment("x"),
        written.stateful_set("x"),
        written.job("x"),
        written.cron_job("x"),
    ],
)
def test_no_object_is_copied_into_other_namespaces(obj: Object, trusted: bool) -> None:
    """Keys that are known to act outside are removed from every kind; others stay."""
    denied = {
        "replicator.v1.mittwald.de/replicate-to": ".*",
        "reflector.v1.k8s.emberstack.com/reflection-allowed": "true",
        "kubed.appscode.com/sync": "",
        "operator.1password.io/item-path": "vaults/v/items/i",
    }
    kept = {"vendor.example/note": "1"}
    obj = obj | {"metadata": {"name": "x", "annotations": denied | kept, "labels": denied | kept}}
    cleaned, note = _left_out(obj, trusted=trusted)
    assert cleaned["metadata"]["annotations"] == cleaned["metadata"]["labels"] == kept
    assert all(f"metadata.annotations.{key}" in note for key in denied)


@pytest.mark.parametrize(
    "key",
    [
        "kube-router.io/service.advertise.clusterip",
        "ipam.antrea.io/ippools",
        "danm.k8s.io/interfaces",
        "egress.projectcalico.org/selector",
        "cni.projectcalico.org/ipAddrs",
        "sidecar.istio.io/userVolume",
    ],
)
def test_no_service_or_pod_gets_networks_or_volumes_by_annotation(key: str) -> None:
    """Not in a trusted Environment either; what only tunes a sidecar stays there."""
    kept = {"sidecar.istio.io/proxyCPU": "100m"}
    obj = written.make_object("v1", "Service", "x")
    obj = obj | {"metadata": {"name": "x", "annotations": {key: "x"} | kept}}
    cleaned, note = _left_out(obj, trusted=True)
    assert cleaned["metadata"]["annotations"] == kept
    assert f"metadata.annotations.{key}" in note


def test_templates_of_claims_are_cleaned() -> None:
    """Those of a StatefulSet and those of ephemeral volumes."""
    marked: JSON = {"metadata": {"annotations": {"nfs.io/storage-path": "../other"}}}
    volumes: JSON = [{"name": "v", "ephemeral": {"volumeClaimTemplate": marked}}]
    pod = written.pod_spec(volumes=volumes)
    obj = written.stateful_set("db", pod, volumeClaimTemplates=[marked])
    cleaned, note = _left_out(obj)
    assert "nfs.io" not in str(cleaned)
    assert "spec.volumeClaimTemplates[0].metadata.annotations.nfs.io/storage-path" in note
    assert "volumes[0].ephemeral.volumeClaimTemplate.metadata.annotations.nfs.io" in note


def test_removed_ties_to_other_objects_are_named() -> None:
    """Finalizers, owners and reserved labels; annotations that a project may set stay."""
    obj = written.deployment("web")
    obj["metadata"] |= {
        "finalizers": ["example.org/never"],
        "ownerReferences": [{"kind": "Deployment"}],
        "labels": {"catalyst.dev/team": "other", "app": "web"},
        "annotations": {"catalyst.dev/recreate": "true"},
    }
    cleaned, note = _left_out(obj, trusted=False)
    assert note == (
        "Deployment/web is applied without metadata.finalizers, metadata.ownerReferences, "
        "metadata.labels.catalyst.dev/team"
    )
    assert cleaned["metadata"]["annotations"] == {"catalyst.dev/recreate": "true"}


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_an_exposed_service_becomes_a_cluster_ip(kind: str) -> None:
    """Node ports, the external traffic policy and load-balancer fields are removed."""
    ports: JSON = [{"port": 80, "nodePort": 30080}, {"port": 81}]
    obj = written.service(
        "web",
        type=kind,
        ports=ports,
        externalTrafficPolicy="Local",
        internalTrafficPolicy="Cluster",
        loadBalancerIP="203.0.113.1",
        loadBalancerSourceRanges=["0.0.0.0/0"],
        loadBalancerClass="x/y",
        allocateLoadBalancerNodePorts=False,
        healthCheckNodePort=30081,
    )
    cleaned, note = _left_out(obj)
    assert cleaned["spec"] == {
        "selector": {"app": "web"},
        "type": "ClusterIP",
        "ports": [{"port": 80}, {"port": 81}],
        "internalTrafficPolicy": "Cluster",
    }
    assert note.startswith(f"Service/web is applied as ClusterIP instead of {kind}, without spec.")
    assert "spec.ports[0].nodePort" in note


def test_an_unchanged_object_has_no_note() -> None:
    """And the object is unchanged."""
    for obj in (written.deployment(), written.service(type="ClusterIP"), written.cron_job()):
        assert _left_out(obj) == (obj, "")


def test_a_long_note_is_cut() -> None:
    """It counts what it does not name."""
    obj = written.service("web")
    obj["metadata"]["annotations"] = {f"tailscale.com/a{number}": "x" for number in range(20)}
    assert _left_out(obj)[1].endswith(" and 12 more")
