"""The rules of cleaning one by one."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.reverser.content import sanitize, sanitize_rules

LIVE = {"uid": "u", "resourceVersion": "1"}


def live_object(kind: str, group: str = "", **body: Any) -> dict[str, Any]:
    """A live object of `kind` without managed fields."""
    api_version = f"{group}/v1" if group else "v1"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", **LIVE}, **body}


def managed(manager: str, fields: dict[str, Any]) -> dict[str, Any]:
    """One row of managedFields."""
    return {"manager": manager, "fieldsType": "FieldsV1", "fieldsV1": fields}


def test_metadata_is_kept_by_allow_list() -> None:
    """Only name, namespace, labels and annotations stay; empty maps go."""
    obj = live_object("Thing", "x")
    obj["metadata"] |= {
        "namespace": "n",
        "labels": {},
        "annotations": {"kubectl.kubernetes.io/x": "1"},
        "generateName": "x-",
        "ownerReferences": [{"uid": "o"}],
        "finalizers": ["f"],
        "selfLink": "/x",
        "anything": "else",
    }
    assert sanitize.sanitize_object(obj)["metadata"] == {"name": "x", "namespace": "n"}


@pytest.mark.parametrize(
    "key",
    [
        "kubectl.kubernetes.io/last-applied-configuration",
        "control-plane.alpha.kubernetes.io/leader",
        "deployment.kubernetes.io/revision",
        "autoscaling.alpha.kubernetes.io/conditions",
        "autoscaling.alpha.kubernetes.io/current-metrics",
        "deprecated.daemonset.template.generation",
        "endpoints.kubernetes.io/last-change-trigger-time",
        "kubernetes.io/service-account.uid",
        "windlass.dev/requestedAt",
        "reconcile.fluxcd.io/requestedAt",
        "kustomize.toolkit.fluxcd.io/name",
        "applyset.kubernetes.io/part-of",
        "argocd.argoproj.io/tracking-id",
        "argocd.argoproj.io/installation-id",
    ],
)
def test_controller_bookkeeping_is_removed(key: str) -> None:
    """Keys of machinery go from annotations and labels alike."""
    obj = live_object("Thing", "x")
    obj["metadata"] |= {"annotations": {key: "1", "a": "b"}, "labels": {key: "1", "c": "d"}}
    metadata = sanitize.sanitize_object(obj)["metadata"]
    assert metadata["annotations"] == {"a": "b"}
    assert metadata["labels"] == {"c": "d"}


@pytest.mark.parametrize(
    "key",
    [
        "windlass.dev",
        "autoscaling.alpha.kubernetes.io/metrics",
        "autoscaling.alpha.kubernetes.io/behavior",
        "argocd.argoproj.io/sync-wave",
        "kubectl.kubernetes.io.example.org/x",
        "pv.kubernetes.io/bind-completed",
        "kubernetes.io/metadata.name",
    ],
)
def test_intent_that_looks_like_bookkeeping_stays(key: str) -> None:
    """Siblings of dropped keys, and keys dropped on other kinds only, are kept."""
    obj = live_object("Thing", "x")
    obj["metadata"]["annotations"] = {key: "1"}
    assert sanitize.sanitize_object(obj)["metadata"]["annotations"] == {key: "1"}


def test_pod_template_keeps_its_annotations() -> None:
    """A restart is a real change."""
    spec = {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "t"}}}}
    assert sanitize.sanitize_object(live_object("Deployment", "apps", spec=spec))["spec"] == spec


def test_claim_annotations_and_volume_name_of_the_binder_go() -> None:
    """What the volume binder wrote is not the user's."""
    obj = live_object("PersistentVolumeClaim", spec={"volumeName": "v", "volumeMode": "Block"})
    obj["metadata"]["annotations"] = {
        "pv.kubernetes.io/bind-completed": "yes",
        "volume.kubernetes.io/selected-node": "n",
    }
    fields = {"f:spec": {"f:volumeName": {}}}
    obj["metadata"]["managedFields"] = [managed("kube-controller-manager", fields)]
    cleaned = sanitize.sanitize_object(obj)
    assert cleaned["spec"] == {"volumeMode": "Block"}
    assert "annotations" not in cleaned["metadata"]
    obj["metadata"]["managedFields"].append(managed("kubectl-edit", fields))
    assert sanitize.sanitize_object(obj)["spec"]["volumeName"] == "v"


def test_claim_reference_loses_what_names_this_cluster() -> None:
    """A volume keeps whom it is for, without uid and version."""
    reference = {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "9"}
    spec = sanitize.sanitize_object(live_object("PersistentVolume", spec={"claimRef": reference}))[
        "spec"
    ]
    assert spec == {"claimRef": {"name": "c", "namespace": "n"}}


def test_generated_token_references_are_removed() -> None:
    """Of a ServiceAccount's secrets those that a user wrote stay."""
    obj = live_object("ServiceAccount", secrets=[{"name": "mine"}, {"name": "token-1"}])
    obj["metadata"]["managedFields"] = [
        managed("kubectl", {"f:secrets": {'k:{"name":"mine"}': {}}}),
        managed("kube-controller-manager", {"f:secrets": {'k:{"name":"token-1"}': {}}}),
    ]
    assert sanitize.sanitize_object(obj)["secrets"] == [{"name": "mine"}]
    del obj["metadata"]["managedFields"]
    assert "secrets" not in sanitize.sanitize_object(obj)


@pytest.mark.parametrize(
    ("finalizers", "kept"),
    [(["kubernetes"], {}), (["kubernetes", "x"], {"finalizers": ["kubernetes", "x"]})],
)
def test_namespace_finalizer_of_the_server_is_removed(
    finalizers: list[str], kept: dict[str, Any]
) -> None:
    """Only the list every namespace has is dropped."""
    obj = live_object("Namespace", spec={"finalizers": finalizers})
    obj["metadata"]["labels"] = {"kubernetes.io/metadata.name": "x"}
    cleaned = sanitize.sanitize_object(obj)
    assert cleaned["spec"] == kept
    assert "labels" not in cleaned["metadata"]


def test_job_labels_go_at_both_levels() -> None:
    """The selector and labels the server makes go, whether defaulting copied them up or not."""
    made = {"controller-uid": "u", "job-name": "x", "batch.kubernetes.io/job-name": "x"}
    spec = {"selector": {"matchLabels": made}, "template": {"metadata": {"labels": dict(made)}}}
    obj = live_object("Job", "batch", spec=spec)
    obj["metadata"]["labels"] = made | {"app": "a"}
    cleaned = sanitize.sanitize_object(obj)
    assert cleaned["metadata"]["labels"] == {"app": "a"}
    assert cleaned["spec"] == {"template": {"metadata": {}}}


def test_manual_selector_is_the_users() -> None:
    """A Job with manualSelector keeps selector and labels."""
    labels = {"controller-uid": "mine"}
    spec = {"manualSelector": True, "selector": {"matchLabels": labels}}
    assert sanitize.sanitize_object(live_object("Job", "batch", spec=spec))["spec"] == spec


def test_aggregated_rules_go_and_own_rules_stay() -> None:
    """Rules are the controller's only where there is an aggregationRule."""
    rbac = "rbac.authorization.k8s.io"
    rules = [{"verbs": ["get"]}]
    assert sanitize.sanitize_object(live_object("ClusterRole", rbac, rules=rules))["rules"] == rules
    gathered = live_object("ClusterRole", rbac, rules=rules, aggregationRule={"x": 1})
    assert "rules" not in sanitize.sanitize_object(gathered)


_STAMPED = {"metadata": {"creationTimestamp": None, "labels": {"a": "b"}}, "spec": {}}


def test_null_timestamps_of_templates_go() -> None:
    """In templates at any depth, of built-in and custom kinds; elsewhere null stays."""
    spec = {
        "jobTemplate": {"metadata": {"creationTimestamp": None}, "spec": {"template": _STAMPED}},
        "object": _STAMPED,
    }
    cleaned = sanitize.sanitize_object(live_object("Rollout", "example.org", spec=spec))["spec"]
    bare = {"metadata": {"labels": {"a": "b"}}, "spec": {}}
    assert cleaned["jobTemplate"] == {"metadata": {}, "spec": {"template": bare}}
    assert cleaned["object"] == _STAMPED


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("StatefulSet", {"spec": {"volumeClaimTemplates": [_STAMPED | {"status": 1}]}}),
        ("Elasticsearch", {"spec": {"nodeSets": [{"podTemplate": _STAMPED}]}}),
        ("ControllerRevision", {"data": {"spec": {"template": _STAMPED}}}),
    ],
)
def test_null_timestamps_in_atomic_values_stay(kind: str, body: dict[str, Any]) -> None:
    """A file without a part of what is one value to server-side apply would conflict."""
    cleaned = sanitize.sanitize_object(live_object(kind, "apps", **body))
    assert {key: cleaned[key] for key in body} == body


def test_without_managed_fields_an_allocated_field_is_removed() -> None:
    """Without an owner it is the allocator's; in a file that never met a server it stays."""
    spec = {"clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 30000}]}
    obj = live_object("Service", spec=spec)
    assert sanitize.sanitize_object(obj)["spec"] == {"ports": [{"port": 80}]}
    del obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]
    assert sanitize.sanitize_object(obj)["spec"] == spec


def test_ports_are_identified_by_number_and_protocol() -> None:
    """The list key of a port is its number and protocol."""
    ports = [
        {"port": 53, "protocol": "TCP", "nodePort": 30053},
        {"port": 53, "protocol": "UDP", "nodePort": 30054},
    ]
    obj = live_object("Service", spec={"ports": ports})
    owned = {"f:spec": {"f:ports": {'k:{"port":53,"protocol":"UDP"}': {"f:nodePort": {}}}}}
    obj["metadata"]["managedFields"] = [managed("helm", owned)]
    assert [p.get("nodePort") for p in sanitize.sanitize_object(obj)["spec"]["ports"]] == [
        None,
        30054,
    ]


def test_owning_the_parent_is_not_owning_the_field() -> None:
    """An empty map is recorded as the parent alone."""
    sets = [{"f:spec": {}}]
    assert sanitize_rules.is_claimed(sets, "f:spec")
    assert not sanitize_rules.is_claimed(sets, "f:spec", "f:clusterIP")


@pytest.mark.parametrize(
    ("owners", "owned"),
    [
        (None, False),
        ([], False),
        ([{"controller": False}], False),
        ([{"uid": "u"}, {"controller": True}], True),
        ("nonsense", False),
    ],
)
def test_only_a_controller_owns(owners: Any, owned: bool) -> None:
    """Other owner references do not make an object owned."""
    assert sanitize.is_controller_owned({"metadata": {"ownerReferences": owners}}) is owned
